// Shrinks a schedule of faults to few that still show a violation, by leaving out ever smaller parts (delta debugging).

/** `fails`: whether these alone still do. The result fails, and leaving out any one more does not. */
export async function shrink<Item>(
  items: readonly Item[],
  fails: (items: readonly Item[]) => Promise<boolean>,
  mostTries = Number.POSITIVE_INFINITY,
): Promise<readonly Item[]> {
  let kept = items;
  let parts = 2;
  let tries = 0;
  while (kept.length > 0 && tries < mostTries) {
    const size = Math.ceil(kept.length / parts);
    let isSmaller = false;
    for (let from = 0; from < kept.length && tries < mostTries; from += size) {
      const rest = [...kept.slice(0, from), ...kept.slice(from + size)];
      tries++;
      if (!(await fails(rest))) continue;
      kept = rest;
      parts = Math.max(2, parts - 1);
      isSmaller = true;
      break;
    }
    if (isSmaller) continue;
    if (size <= 1) break;
    parts = Math.min(kept.length, 2 * parts);
  }
  return kept;
}
