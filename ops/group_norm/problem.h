// What group_normalize and its gradients read of a step.
#pragma once

#include "ops/core/attributes.h"
#include "runtime/base/array.h"
#include "runtime/base/host_device.h"

namespace flow {

/// x [images, channels, inner], the channels in groups of `width`. A row is a group of an image.
struct ChannelGroups {
  int64_t images, channels, inner, groups, width, rows;
  int64_t elements;  // of a row
  double epsilon;

  ChannelGroups(const ops::Attributes& attributes, const Shape& x)
      : images(x[0]),
        channels(x[1]),
        inner(x.elements(2, x.rank())),
        groups(attributes.get<int64_t>("groups")),
        width(channels / groups),
        rows(images * groups),
        elements(width * inner),
        epsilon(attributes.get<double>("epsilon")) {}

  FLOW_HOST_DEVICE int64_t first_channel(int64_t row) const { return row % groups * width; }
};

}  // namespace flow
