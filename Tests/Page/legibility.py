"""How legible the page's texts are: the contrast of each text that can be seen against what lies behind it.

Normal text needs a ratio of 4.5 (https://www.w3.org/TR/WCAG22/#contrast-minimum).
"""

CONTRASTS = """(() => {
  const parts = color => { const found = color.match(/[\\d.]+/g).map(Number); return { rgb: found.slice(0, 3), alpha: found[3] ?? 1 } };
  const light = rgb => {
    const [red, green, blue] = rgb.map(part => part / 255).map(part => part <= .04045 ? part / 12.92 : ((part + .055) / 1.055) ** 2.4);
    return .2126 * red + .7152 * green + .0722 * blue;
  };
  // Every ground here is opaque or absent; opacity would need more, and is refused.
  const ground = target => {
    for (let at = target; at; at = at.parentElement) {
      const found = parts(getComputedStyle(at).backgroundColor);
      if (found.alpha > 0) return found.rgb;
    }
    return [255, 255, 255];
  };
  const weak = [];
  let texts = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const holder = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !holder.checkVisibility({ visibilityProperty: true }) || holder.closest('.unseen')) continue;
    texts += 1;
    let opaque = true;
    for (let at = holder; at; at = at.parentElement) if (getComputedStyle(at).opacity !== '1') opaque = false;
    const [one, other] = [light(parts(getComputedStyle(holder).color).rgb), light(ground(holder))].sort((a, b) => b - a);
    const ratio = (one + .05) / (other + .05);
    if (ratio < 4.5 || !opaque) weak.push(walker.currentNode.textContent.slice(0, 40) + ' ' + ratio.toFixed(2));
  }
  return { texts, weak };
})()"""
