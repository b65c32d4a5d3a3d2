// The sizes and the epsilon that group_normalize and its gradient read from a step.
#pragma once

#include "ops/core/attributes.h"
#include "runtime/base/array.h"
#include "runtime/base/host_device.h"

namespace flow {

/// The sizes of x [images, channels, inner], whose channels form groups of `width` channels. A row
/// is one group of one image.
struct ChannelGroups {
  int64_t images, channels, inner, groups, width, rows;
  int64_t elements;  // per row
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
