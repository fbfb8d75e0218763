// Sizes that grow with the page's letters, for what style sheets do not draw.

export function pixelsOf(rem: number): number {
  return Math.round(rem * Number.parseFloat(getComputedStyle(document.documentElement).fontSize));
}
