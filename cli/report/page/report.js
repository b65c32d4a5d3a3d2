// Adds to the plots what paper cannot do: values under the pointer, runs to switch off, a
// logarithmic scale, smoothing. Without it the page has everything but these.
'use strict';
(() => {
  const source = document.getElementById('data');
  if (!source) return;
  const data = JSON.parse(source.textContent);
  const names = [...document.querySelectorAll('.legend li')].map((item) => item.textContent.trim());
  const hidden = new Set();
  let log = false, smoothing = 0;

  const element = (name, className, text) => {
    const made = document.createElement(name);
    made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  };

  // Exponential moving average, without its bias towards the first value.
  const smoothed = (ys) => {
    let sum = 0, weight = 0;
    return ys.map((y) => {
      if (y === null) return null;
      sum = sum * smoothing + (1 - smoothing) * y;
      weight = weight * smoothing + (1 - smoothing);
      return sum / weight;
    });
  };

  // Round numbers: 1, 2 or 5 times a power of ten.
  const linearTicks = (from, to, about) => {
    const rough = (to - from) / about;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= rough * 0.9999);
    const found = [];
    for (let i = Math.ceil(from / step); i * step <= to && found.length < 20; ++i) found.push(i * step);
    return found.map((value) => [value, tickText(value, step)]);
  };
  const logTicks = (from, to) => {  // both as powers of ten
    const factors = to - from < 2.5 ? [1, 2, 5] : [1];
    const stride = Math.max(1, Math.ceil((to - from) / 5));
    const found = [];
    for (let power = Math.floor(from); power <= to; power += stride)
      for (const factor of factors) {
        const place = power + Math.log10(factor);
        if (place >= from && place <= to) found.push([place, shortText(factor * 10 ** power)]);
      }
    return found.length > 1 ? found
        : linearTicks(10 ** from, 10 ** to, 4).map(([value, text]) => [Math.log10(value), text]);
  };
  const shortText = (value) => {
    const size = Math.abs(value);
    if (size !== 0 && (size >= 1e6 || size < 1e-4)) return value.toExponential(2).replace(/\.?0+e/, 'e');
    return String(Number(value.toPrecision(4)));
  };
  const tickText = (value, step) => {
    const size = Math.abs(value);
    if (size !== 0 && (size >= 1e9 || size < 1e-4)) return value.toExponential(2).replace(/\.?0+e/, 'e');
    if (size >= 1e6 && step >= 1e4) return `${Math.round(value / 1e4) / 100}M`;
    if (size >= 1e4 && step >= 10) return `${Math.round(value / 10) / 100}k`;
    return value.toFixed(Math.min(10, Math.max(0, -Math.floor(Math.log10(step) + 1e-9))));
  };

  class Chart {
    constructor(figure, chart) {
      this.area = figure.querySelector('.area');
      this.svg = figure.querySelector('svg');
      this.grid = figure.querySelector('.grid-lines');
      this.axis = chart.x;
      const [paths, dots] = ['.curve', '.dots'].map((each) => figure.querySelectorAll(each));
      this.curves = chart.curves.map((curve, i) => ({...curve, path: paths[i], dots: dots[i]}));
      const xs = this.curves.flatMap((curve) => curve.x);
      this.from = xs.reduce((a, b) => Math.min(a, b), Infinity);
      this.to = xs.reduce((a, b) => Math.max(a, b), -Infinity);
      if (!(this.from < this.to)) [this.from, this.to] = [this.from - 1, this.from + 1];
      this.area.addEventListener('pointermove', (event) => this.point(event));
      this.area.addEventListener('pointerleave', () => this.leave());
    }

    scaled(y) {
      return y === null ? null : log ? (y > 0 ? Math.log10(y) : null) : y;
    }
    visible() {
      return this.curves.filter((curve) => !hidden.has(curve.run));
    }

    draw() {
      for (const curve of this.curves) {
        curve.shown = smoothing > 0 ? smoothed(curve.y) : curve.y;
        for (const each of [curve.path, curve.dots]) each.classList.toggle('off', hidden.has(curve.run));
      }
      const ys = this.visible().flatMap((curve) => (smoothing > 0 ? curve.y.concat(curve.shown) : curve.y))
          .map((y) => this.scaled(y)).filter((y) => y !== null);
      let least = ys.reduce((a, b) => Math.min(a, b), Infinity);
      let greatest = ys.reduce((a, b) => Math.max(a, b), -Infinity);
      if (!(least <= greatest)) [least, greatest] = [0, 1];
      const room = greatest - least > 1e-9 * Math.max(Math.abs(least), Math.abs(greatest))
          ? (greatest - least) * 0.04 : Math.abs(least) * 0.1 || 1;
      [this.bottom, this.top] = [least - room, greatest + room];
      for (const curve of this.curves) {
        this.drawRaw(curve);
        const path = this.path(curve, curve.shown);
        curve.path.setAttribute('d', path);
        curve.dots.setAttribute('d', curve.x.length <= 40 ? path.replace(/h0/g, '').replaceAll('L', 'M').replace(/(M[^M]*)/g, '$1h0') : '');
      }
      this.drawLabels();
    }
    // Behind a smoothed curve, what it is made from.
    drawRaw(curve) {
      curve.raw?.remove();
      if (smoothing === 0 || hidden.has(curve.run)) return;
      curve.raw = curve.path.cloneNode();
      curve.raw.classList.replace('curve', 'raw');
      curve.raw.setAttribute('d', this.path(curve, curve.y));
      curve.path.before(curve.raw);
    }
    path(curve, ys) {
      let open = false, text = '';
      ys.forEach((y, i) => {
        const scaled = this.scaled(y);
        if (scaled === null) { open = false; return; }
        const place = [this.left(curve.x[i]) * 1000, this.height(scaled) * 1000].map((each) => each.toFixed(1));
        text += (open ? 'L' : 'M') + place.join(' ') + (open ? '' : 'h0');
        open = true;
      });
      return text;
    }
    left(x) { return (x - this.from) / (this.to - this.from); }
    height(scaled) { return 1 - (scaled - this.bottom) / (this.top - this.bottom); }

    drawLabels() {
      this.area.querySelectorAll('.y').forEach((label) => label.remove());
      const ticks = log ? logTicks(this.bottom, this.top) : linearTicks(this.bottom, this.top, 5);
      let lines = '';
      for (const [value, text] of ticks) {
        const place = this.height(value);
        const label = element('span', 'y', text);
        label.style.top = `${place * 100}%`;
        this.area.append(label);
        lines += `<path d="M0 ${(place * 1000).toFixed(1)}H1000"/>`;
      }
      this.grid.innerHTML = lines;
    }

    // The values at the step that is nearest to the pointer.
    point(event) {
      const box = this.area.getBoundingClientRect();
      const x = this.from + (event.clientX - box.left) / box.width * (this.to - this.from);
      const rows = [];
      let step = null;
      for (const curve of this.visible()) {
        const at = this.nearest(curve.x, x);
        if (at < 0) continue;
        if (step === null || Math.abs(curve.x[at] - x) < Math.abs(step - x)) step = curve.x[at];
        rows.push([curve, curve.shown[at]]);
      }
      this.leave();
      if (step === null) return;
      this.cursor = element('div', 'cursor');
      this.cursor.style.left = `${this.left(step) * 100}%`;
      this.tip = element('div', 'tip');
      this.tip.append(element('div', '', `${this.axis} ${step}`));
      for (const [curve, y] of rows.slice(0, 12)) {
        const row = element('div', '');
        const name = element('span', curve.dots.getAttribute('class').replace('dots ', ''), names[curve.run] ?? 'value');
        row.append(name, element('b', '', y === null ? 'not finite' : shortText(y)));
        this.tip.append(row);
      }
      if (this.left(step) < 0.5) this.tip.style.left = `calc(${this.left(step) * 100}% + 8px)`;
      else this.tip.style.right = `calc(${(1 - this.left(step)) * 100}% + 8px)`;
      this.area.append(this.cursor, this.tip);
    }
    nearest(xs, x) {
      let best = -1;
      xs.forEach((each, i) => { if (best < 0 || Math.abs(each - x) < Math.abs(xs[best] - x)) best = i; });
      return best;
    }
    leave() {
      this.cursor?.remove();
      this.tip?.remove();
    }
  }

  const charts = [...document.querySelectorAll('figure[data-chart]')]
      .map((figure) => new Chart(figure, data[figure.dataset.chart]));
  const draw = () => charts.forEach((chart) => chart.draw());

  for (const item of document.querySelectorAll('.legend li')) {
    const button = element('button', '');
    button.type = 'button';
    button.setAttribute('aria-pressed', 'true');
    button.append(...item.childNodes);
    item.append(button);
    button.addEventListener('click', () => {
      const run = Number(item.dataset.run);
      const off = !hidden.delete(run) && hidden.add(run).has(run);
      button.setAttribute('aria-pressed', String(!off));
      document.querySelectorAll(`.legend [data-run="${run}"], tr[data-run="${run}"]`)
          .forEach((each) => each.classList.toggle('off', off));
      draw();
    });
  }
  document.getElementById('log').addEventListener('change', (event) => {
    log = event.target.checked;
    draw();
  });
  document.getElementById('smoothing').addEventListener('input', (event) => {
    smoothing = Number(event.target.value);
    document.getElementById('smoothed').textContent = smoothing > 0 ? smoothing.toFixed(2) : 'off';
    draw();
  });
  document.documentElement.classList.add('script');
  draw();
})();
