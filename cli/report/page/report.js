// Draws the plots of the page: metrics with values under the pointer, runs to switch off, a
// logarithmic scale and smoothing; distributions; memory.
'use strict';
(() => {
  const names = [...document.querySelectorAll('.legend li')].map((item) => item.textContent.trim());
  const hidden = new Set();
  let log = false, smoothing = 0;

  const element = (name, className, text) => {
    const made = document.createElement(name);
    made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  };

  // The frame of a plot in a figure, and what is in its SVG.
  class Plot {
    constructor(figure, xName, drawing) {
      const plot = element('div', 'plot');
      this.area = element('div', 'area');
      this.area.innerHTML = `<svg viewBox="0 0 1000 1000" preserveAspectRatio="none" aria-hidden="true"><g class="grid-lines"></g>${drawing}</svg>`;
      [this.svg, this.grid] = [this.area.firstChild, this.area.firstChild.firstChild];
      plot.append(this.area, element('div', 'x-name', xName));
      figure.append(plot);
    }
    label(className, side, place, text) {
      if (place < 0 || place > 1) return;
      const label = element('span', className, text);
      label.style[side] = `${place * 100}%`;
      this.area.append(label);
    }
    labelX(range, ticks) {
      for (const [value, text] of ticks) this.label('x', 'left', placeIn(range, value), text);
    }
    // Places are shares of the plot from the top.
    labelY(places) {
      this.area.querySelectorAll('.y').forEach((label) => label.remove());
      for (const [place, text] of places) this.label('y', 'top', place, text);
      this.grid.innerHTML = places.map(([place]) => `<path d="M0 ${coordinate(place)}H1000"/>`).join('');
    }
  }

  class Chart extends Plot {
    constructor(figure, chart) {
      super(figure, figure.dataset.x, chart.curves.map(({class: kind, run}) => `<path class="curve ${kind}" data-run="${run}"/><path class="dots ${kind}"/>`).join(''));
      this.axis = chart.x;
      const [paths, dots] = ['.curve', '.dots'].map((each) => this.svg.querySelectorAll(each));
      this.curves = chart.curves.map((curve, i) => ({...curve, path: paths[i], dots: dots[i]}));
      const xs = this.curves.flatMap((curve) => curve.x);
      this.range = {from: drawn(least(xs)), to: drawn(greatest(xs))};
      if (!(this.range.from < this.range.to)) this.range = {from: this.range.from - 1, to: this.range.from + 1};
      this.labelX(this.range, linearTicks(this.range, 5).filter(([value]) => value === Math.floor(value)));
      this.area.addEventListener('pointermove', (event) => this.point(event));
      this.area.addEventListener('pointerleave', () => this.leave());
    }

    scaled(ys) {
      return ys.map((y) => (y === null ? null : log ? (y > 0 ? Math.log10(y) : null) : y));
    }
    visible() {
      return this.curves.filter((curve) => !hidden.has(curve.run));
    }

    draw() {
      for (const curve of this.curves) {
        curve.shown = smoothing > 0 ? smoothed(curve.y, smoothing) : curve.y;
        for (const each of [curve.path, curve.dots]) each.classList.toggle('off', hidden.has(curve.run));
      }
      const range = rangeOf(this.visible().flatMap((curve) => this.scaled(smoothing > 0 ? curve.y.concat(curve.shown) : curve.y)).filter((y) => y !== null));
      for (const curve of this.curves) {
        this.drawRaw(curve, range);
        const path = pathThrough(curve.x, this.scaled(curve.shown), this.range, range);
        curve.path.setAttribute('d', path);
        curve.dots.setAttribute('d', curve.x.length <= 40 ? dotsOf(path) : '');
      }
      this.labelY((log ? logTicks(range) : linearTicks(range, 5)).map(([value, text]) => [1 - placeIn(range, value), text]));
    }
    // What a smoothed curve is made from lies under it.
    drawRaw(curve, range) {
      curve.raw?.remove();
      if (smoothing === 0 || hidden.has(curve.run)) return;
      curve.raw = curve.path.cloneNode();
      curve.raw.classList.replace('curve', 'raw');
      curve.raw.setAttribute('d', pathThrough(curve.x, this.scaled(curve.y), this.range, range));
      curve.path.before(curve.raw);
    }

    // The values at the step that is nearest to the pointer.
    point(event) {
      const box = this.area.getBoundingClientRect();
      const x = this.range.from + (event.clientX - box.left) / box.width * (this.range.to - this.range.from);
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
      const left = placeIn(this.range, step);
      this.cursor = element('div', 'cursor');
      this.cursor.style.left = `${left * 100}%`;
      this.tip = element('div', 'tip');
      this.tip.append(element('div', '', `${this.axis} ${step}`));
      for (const [curve, y] of rows.slice(0, 12)) {
        const row = element('div', '');
        row.append(element('span', curve.class, names[curve.run] ?? 'value'), element('b', '', y === null ? 'not finite' : shortText(y)));
        this.tip.append(row);
      }
      if (left < 0.5) this.tip.style.left = `calc(${left * 100}% + 8px)`;
      else this.tip.style.right = `calc(${(1 - left) * 100}% + 8px)`;
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

  for (const figure of document.querySelectorAll('figure[data-histograms]')) {
    const {range, ridges} = ridgesOf(JSON.parse(figure.dataset.histograms));
    const plot = new Plot(figure, 'value', ridges.map(({path, shade, step}) => `<path class="ridge" style="--shade:${shade}%" d="${path}"><title>step ${step}</title></path>`).join(''));
    plot.labelX(range, linearTicks(range, 4));
    plot.labelY(ridges.filter((each) => each.labeled).map(({base, step}) => [base, String(step)]));
  }
  for (const figure of document.querySelectorAll('figure[data-memory]')) {
    const {range, xRange, always, stairs} = stairsOf(JSON.parse(figure.dataset.memory));
    const plot = new Plot(figure, 'step of the plan', `<path class="always" d="${always}"/><path class="stairs" d="${stairs}"/>`);
    plot.labelX(xRange, linearTicks(xRange, 5));
    plot.labelY(byteTicks(range).map(([value, text]) => [1 - placeIn(range, value), text]));
  }

  const source = document.getElementById('data');
  if (!source) return;
  const data = JSON.parse(source.textContent);
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
