// Clients expect ids of calls to look like Anthropic's; templates want them as they were made.

const MARK = 'toolu_';

export function shownId(id: string): string {
  return MARK + id;
}

export function ownId(shown: string): string {
  return shown.startsWith(MARK) ? shown.slice(MARK.length) : shown;
}
