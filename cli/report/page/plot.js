// The numbers of plots: ranges, ticks and paths. The drawing's own coordinates are 0 to 1000 from the
// left and from the top.
'use strict';

const farthest = 1e300;  // Values beyond are drawn here: their differences would overflow.
const drawn = (value) => Math.min(Math.max(value, -farthest), farthest);
const least = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
const greatest = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);
const coordinate = (share) => Number((share * 1000).toPrecision(5));

// From the least to the greatest value with room at both ends; [0, 1] where there is no value.
const rangeOf = (values) => {
  let [from, to] = [drawn(least(values)), drawn(greatest(values))];
  if (!(from <= to)) [from, to] = [0, 1];
  const room = to - from > 1e-9 * Math.max(Math.abs(from), Math.abs(to)) ? (to - from) * 0.04 : Math.abs(from) * 0.1 || 1;
  return {from: from - room, to: to + room};
};
// As a share of the range, 0 to 1.
const placeIn = (range, value) => (value - range.from) / (range.to - range.from);

const shortText = (value) => {
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e6 || size < 1e-4)) return value.toExponential(2).replace(/\.?0+e/, 'e');
  return String(Number(value.toPrecision(4)));
};
// "0.25", "20k", "1e-5": as short as ticks that are `step` apart can be.
const tickText = (value, step) => {
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e9 || size < 1e-4)) return value.toExponential(2).replace(/\.?0+e/, 'e');
  if (size >= 1e6 && step >= 1e4) return `${Math.round(value / 1e4) / 100}M`;
  if (size >= 1e4 && step >= 10) return `${Math.round(value / 10) / 100}k`;
  return value.toFixed(Math.min(10, Math.max(0, -Math.floor(Math.log10(step) + 1e-9))));
};
const bytesText = (bytes) => {
  if (bytes < 1000) return `${Math.floor(bytes)} B`;
  let [value, unit] = [bytes, 0];
  for (; value >= 999.5 && unit < 6; ++unit) value /= 1024;
  return `${value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0)} ${['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'][unit]}`;
};

// Round numbers inside a range, 1, 2 or 5 times a power of ten: `about` of them, or a few more, with their texts.
const linearTicks = ({from, to}, about, text = tickText) => {
  const rough = (to - from) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5].map((factor) => factor * power).find((each) => each >= rough * 0.9999) ?? 10 * power;
  const found = [];
  for (let i = Math.ceil(from / step), value; (value = i * step) <= to && found.length < 20; ++i) found.push([value, text(value, step)]);
  return found;
};
const logTicks = ({from, to}) => {  // Both are powers of ten.
  const factors = to - from < 2.5 ? [1, 2, 5] : [1];
  const stride = Math.max(1, Math.ceil((to - from) / 5));
  const found = [];
  for (let power = Math.floor(from); power <= to; power += stride)
    for (const factor of factors) {
      const place = power + Math.log10(factor);
      if (place >= from && place <= to) found.push([place, shortText(factor * 10 ** power)]);
    }
  return found.length > 1 ? found
      : linearTicks({from: 10 ** from, to: 10 ** to}, 4).map(([value, text]) => [Math.log10(value), text]);
};
// Ticks are round in the unit that the greatest has.
const byteTicks = ({from, to}) => {
  let unit = 1;
  while (to / unit >= 1024) unit *= 1024;
  return linearTicks({from: from / unit, to: to / unit}, 4, (value) => bytesText(value * unit)).map(([value, text]) => [value * unit, text]);
};

// A path through points, with gaps where y is null. A point begins with a line of no length, whose round ends are a dot.
const pathThrough = (xs, ys, xRange, yRange) => {
  let open = false, path = '';
  ys.forEach((y, i) => {
    if (y !== null) path += `${open ? 'L' : 'M'}${coordinate(placeIn(xRange, xs[i]))} ${coordinate(1 - placeIn(yRange, y))}${open ? '' : 'h0'}`;
    open = y !== null;
  });
  return path;
};
const dotsOf = (path) => path.replaceAll('h0', '').replaceAll('L', 'M').replace(/(M[^M]*)/g, '$1h0');

// Exponential moving average, without its bias towards the first value.
const smoothed = (ys, smoothing) => {
  let sum = 0, weight = 0;
  return ys.map((y) => {
    if (y === null) return null;
    sum = sum * smoothing + (1 - smoothing) * y;
    weight = weight * smoothing + (1 - smoothing);
    return sum / weight;
  });
};

// The elements of a histogram, counted again in cells of a range: a bin gives each cell what overlaps.
const countedAgain = ({from, to, counts}, range, cells) => {
  const start = drawn(from), bin = (drawn(to) - start) / counts.length;
  const cellOf = (x) => Math.min(Math.max(placeIn(range, x) * cells, 0), cells - 1e-9);
  const again = new Array(cells).fill(0);
  counts.forEach((count, i) => {
    const first = cellOf(start + bin * i), last = Math.max(cellOf(start + bin * (i + 1)), first + 1e-9);
    for (let cell = Math.floor(first); cell <= last && cell < cells; ++cell)
      again[cell] += count * Math.max(0, Math.min(last, cell + 1) - Math.max(first, cell)) / (last - first);
  });
  return again;
};

// Ridges behind each other, the newest in front: paths, and labels at their bases.
const ridgesOf = (histograms) => {
  const cells = 64, top = 220, height = 210, count = histograms.length;
  const range = rangeOf(histograms.flatMap(({from, to}) => [from, to]));
  const shares = histograms.map((each) => {
    const counts = countedAgain(each, range, cells);
    const sum = Math.max(1, counts.reduce((a, b) => a + b, 0));
    return counts.map((value) => value / sum);
  });
  // One spike, such as of zeros at the start, leaves the others visible.
  const heights = shares.map(greatest).sort((a, b) => a - b);
  const full = 1.5 * Math.max(heights[Math.floor(count / 2)], 1e-12);
  const stride = Math.floor((count + 5) / 6);
  const ridges = histograms.map(({step}, i) => {
    const base = count === 1 ? 1000 : top + (1000 - top) * i / (count - 1), left = count - 1 - i;
    const line = shares[i].map((share, cell) => `L${coordinate((cell + 0.5) / cells)} ${coordinate((base - height * Math.min(1, share / full)) / 1000)}`);
    return {step, base: base / 1000, shade: count === 1 ? 100 : 15 + Math.floor(70 * i / (count - 1)),
            labeled: left === 0 || (i % stride === 0 && left >= Math.floor((stride + 1) / 2)),
            path: `M0 ${coordinate(base / 1000)}${line.join('')}L1000 ${coordinate(base / 1000)}`};
  });
  return {range, ridges};
};

// Bytes over steps as stairs above those that live all the time.
const stairsOf = ({steps, always, live}) => {
  const range = {from: 0, to: (greatest(live) + always) * 1.05};
  const height = (bytes) => coordinate(1 - placeIn(range, bytes));
  const stairs = live.map((bytes, i) => `V${height(always + bytes)}H${coordinate((i + 1) / live.length)}`).join('');
  return {range, xRange: {from: 0, to: steps}, always: `M0 1000V${height(always)}H1000V1000Z`,
          stairs: `M0 ${height(always)}${stairs}V${height(always)}Z`};
};
