// Settings as people read and write them: values with their units, meanings without Markdown.

import { configOptions, flagOf, type OptionKind, type OptionName } from './config-options.ts';

/** As it may be given: `10m`, `8MiB`. A list is one line. */
export function settingText({ type }: OptionKind, value: unknown): string {
  if (Array.isArray(value)) return listed(value);
  if (typeof value !== 'number') return String(value);
  if (type === 'seconds') return formatSeconds(value);
  return type === 'bytes' ? formatBytes(value) : String(value);
}

function listed(items: readonly unknown[]): string {
  return items.map((one) => (typeof one === 'string' ? one : JSON.stringify(one))).join(', ') || '(none)';
}

function formatSeconds(seconds: number): string {
  const units = [
    ['d', 86_400],
    ['h', 3600],
    ['m', 60],
  ] as const;
  // A minute is usually said as 60s.
  const isIn = (size: number) => seconds > 60 && seconds % size === 0;
  const [unit, size] = units.find(([, length]) => isIn(length)) ?? ['s', 1];
  return `${seconds / size}${unit}`;
}

/** Never rounded: in the largest unit of which it is a whole number. */
function formatBytes(bytes: number): string {
  const units = [
    ['TiB', 1024 ** 4],
    ['GiB', 1024 ** 3],
    ['GB', 1e9],
    ['MiB', 1024 ** 2],
    ['MB', 1e6],
    ['KiB', 1024],
  ] as const;
  const found = units.find(([, size]) => bytes >= size && bytes % size === 0);
  return found === undefined ? String(bytes) : `${bytes / found[1]}${found[0]}`;
}

/** Other settings are named by their flags. */
export function plainMeaning(meaning: string): string {
  return meaning
    .replace(/\[([^\]]+)\]\([^)]*\)/g, '$1')
    .replace(/`([^`]*)`/g, (_, code: string) => (code in configOptions ? flagOf(code as OptionName) : code));
}
