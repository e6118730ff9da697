// Runs in every page before its own scripts, and keeps what is written on each
// canvas: text, box in canvas pixels, and ink. The DOM knows nothing of it.
(() => {
  const texts = new WeakMap();
  Object.defineProperty(window, "browserWritten", { value: (canvas) => texts.get(canvas) ?? [], configurable: true });

  const { fillText, clearRect } = CanvasRenderingContext2D.prototype;
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...rest) {
    const m = this.measureText(text), to = this.getTransform();
    const corners = [
      [x - m.actualBoundingBoxLeft, y - m.actualBoundingBoxAscent], [x + m.actualBoundingBoxRight, y - m.actualBoundingBoxAscent],
      [x - m.actualBoundingBoxLeft, y + m.actualBoundingBoxDescent], [x + m.actualBoundingBoxRight, y + m.actualBoundingBoxDescent],
    ].map(([x, y]) => to.transformPoint({ x, y }));
    const xs = corners.map((p) => p.x), ys = corners.map((p) => p.y);
    if (!texts.has(this.canvas)) texts.set(this.canvas, []);
    texts.get(this.canvas).push({
      text: String(text), ink: this.fillStyle,
      left: Math.min(...xs), right: Math.max(...xs), top: Math.min(...ys), bottom: Math.max(...ys),
    });
    return fillText.call(this, text, x, y, ...rest);
  };
  CanvasRenderingContext2D.prototype.clearRect = function (x, y, w, h) {
    const to = this.getTransform();
    const a = to.transformPoint({ x, y }), b = to.transformPoint({ x: x + w, y: y + h });
    const { width, height } = this.canvas, all = a.x <= 0 && a.y <= 0 && b.x >= width && b.y >= height;
    const stays = (t) => t.left < a.x - 1 || t.top < a.y - 1 || t.right > b.x + 1 || t.bottom > b.y + 1;
    texts.set(this.canvas, all ? [] : (texts.get(this.canvas) ?? []).filter(stays));
    return clearRect.call(this, x, y, w, h);
  };
  // To size a canvas is to clear it.
  for (const side of ["width", "height"]) {
    const own = Object.getOwnPropertyDescriptor(HTMLCanvasElement.prototype, side);
    Object.defineProperty(HTMLCanvasElement.prototype, side, {
      ...own,
      set(value) { texts.delete(this); own.set.call(this, value); },
    });
  }
})();
