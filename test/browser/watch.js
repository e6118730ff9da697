// Runs in every page before its own scripts, and notes what only the page can
// tell: what its policy refused, when it was drawn, and what it printed.
(() => {
  const seen = { violations: [], drawnAt: null, onPaper: null };
  Object.defineProperty(window, "browserSeen", { value: seen, configurable: true });
  document.addEventListener("securitypolicyviolation", (e) => {
    seen.violations.push(`${e.effectiveDirective} refused ${e.blockedURI || "inline"} (${e.sample || e.sourceFile || "no sample"})`);
  });
  new MutationObserver((_, observer) => {
    if (document.documentElement?.dataset.drawn === "yes") {
      seen.drawnAt = performance.now();
      observer.disconnect();
    }
  }).observe(document, { attributes: true, subtree: true, attributeFilter: ["data-drawn"] });
  // When paper is left, what was drawn for it is still there: this listener is the
  // first, and the page's own draws anew.
  matchMedia("print").addEventListener("change", (e) => {
    if (e.matches) return;
    const drawn = [...document.querySelectorAll("canvas")].filter((c) => window.browserWritten?.(c).length);
    seen.onPaper = { inks: drawn.flatMap((c) => window.browserWritten(c).map((w) => w.ink)), lanes: drawn.filter((c) => c.closest(".lane")).length };
  });
})();
