// Cuts numbers into groups of three digits from the right, as `\d{1,3}(?=(?:\d{3})*\b)` does. That expression looks ahead to
// the end of a number at each of its digits; this takes as long as the text is.

const digits = /\p{Nd}+/gu;
/** What `\w` is: where it follows, a number does not end. */
const wordStart = /^[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}]/u;
const GROUP = 3;

export function splitThousands(text: string): readonly string[] {
  const pieces: string[] = [];
  let end = 0;
  for (const { index, 0: number } of text.matchAll(digits)) {
    const behind = index + number.length;
    // Two units hold whatever character follows.
    if (wordStart.test(text.slice(behind, behind + 2))) continue;
    if (index > end) pieces.push(text.slice(end, index));
    for (const group of groupsOf(number)) pieces.push(group);
    end = behind;
  }
  if (end < text.length) pieces.push(text.slice(end));
  return pieces;
}

function groupsOf(number: string): string[] {
  // Some digits take two units.
  const characters = [...number];
  const missing = (GROUP - (characters.length % GROUP)) % GROUP;
  return Array.from({ length: Math.ceil(characters.length / GROUP) }, (_, group) => {
    const end = (group + 1) * GROUP - missing;
    return characters.slice(Math.max(0, end - GROUP), end).join('');
  });
}
