"""How well texts on a page can be read, measured in a browser."""

# Contrast (WCAG 2) of each text with what is behind it. Labels on pictures have a background of their own, and white is
# taken to shine through it.
CONTRASTS = """() => {
  const parse = text => [...text.match(/[\\d.]+/g).map(Number), 1].slice(0, 4);
  const over = (top, below) => below.map((value, i) => top[3] * top[i] + (1 - top[3]) * value);
  const light = colour => {
    const [r, g, b] = colour.map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = element => {
    if (!element) return [255, 255, 255];
    const layer = parse(getComputedStyle(element).backgroundColor);
    if (layer[3] === 1) return layer.slice(0, 3);
    return layer[3] === 0 ? behind(element.parentElement) : over(layer, [255, 255, 255]);
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), results = [];
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement, text = walker.currentNode.textContent.trim();
    if (!text || element.matches("script, style") || !element.getClientRects().length) continue;
    const style = getComputedStyle(element), back = behind(element);
    const front = over(parse(element.ownerSVGElement ? style.fill : style.color), back);
    const [high, low] = [light(front), light(back)].sort((a, b) => b - a);
    results.push([text.slice(0, 40), (high + 0.05) / (low + 0.05)]);
  }
  return results;
}"""
