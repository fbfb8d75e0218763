// Texts that are too long for their place.

/** Cut where it is too long, never within a pair; says by an ellipsis that it was. */
export function shortened(text: string, most: number): string {
  if (text.length <= most) return text;
  const end = /[\ud800-\udbff]/.test(text[most - 2] as string) ? most - 2 : most - 1;
  return `${text.slice(0, end)}…`;
}
