// A line of the log as people read it at a terminal: time, what happened, and of a request its model, tier, tokens and speed.
// The log's own form is JSON, a line for each event; what is no such line stays as it is.

import { visible } from '../text/visible.ts';

const DIM = '2';
const RED = '31';
const GREEN = '32';
const YELLOW = '33';
const CYAN = '36';

/** By the level's number. Information is the usual, and needs no word. */
const levels: Readonly<Record<number, readonly [word: string, colour: string]>> = {
  10: ['trace ', DIM],
  20: ['debug ', DIM],
  40: ['warning: ', YELLOW],
  50: ['error: ', RED],
  60: ['error: ', RED],
};

/** As https://no-color.org asks. */
export function usesColour(environment: Readonly<Record<string, string | undefined>>): boolean {
  return !environment.NO_COLOR && environment.TERM !== 'dumb';
}

type Paint = (text: string, colour: string) => string;

const plain: Paint = (text) => text;
const coloured: Paint = (text, colour) => (colour === '' ? text : `\x1b[${colour}m${text}\x1b[0m`);

interface LogLine {
  readonly level: number;
  readonly time: number;
  readonly msg: string;
  readonly [field: string]: unknown;
}

/** With its line break. */
export function formatLogLine(json: string, colour: boolean): string {
  const line = parsed(json);
  if (line === undefined) return json;
  const { level, time, msg, ...fields } = line;
  const paint = colour ? coloured : plain;
  const [word, tone] = levels[level] ?? ['', ''];
  const text = isRequest(fields)
    ? describeRequest(msg, fields, paint)
    : `${paint(word + visible(msg), tone)}${describeFields(fields, paint)}`;
  return `${paint(clock(time), DIM)}  ${text}\n`;
}

function parsed(json: string): LogLine | undefined {
  try {
    const line = JSON.parse(json) as Partial<LogLine> | null;
    const isLine = typeof line?.level === 'number' && typeof line.time === 'number';
    return isLine
      ? { ...line, level: line.level as number, time: line.time as number, msg: line.msg ?? '' }
      : undefined;
  } catch {
    return undefined;
  }
}

function clock(timeMs: number): string {
  const time = new Date(timeMs);
  return [time.getHours(), time.getMinutes(), time.getSeconds()]
    .map((part) => String(part).padStart(2, '0'))
    .join(':');
}

/** What `RequestFeed` publishes. */
interface RequestFields {
  readonly model: string;
  readonly tier: string;
  readonly outcome: string;
  readonly finishReasons?: readonly string[];
  readonly firstTokenMs?: number;
  readonly totalMs: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly completionTokens: number;
}

function isRequest(fields: object): fields is RequestFields {
  return 'outcome' in fields && 'promptTokens' in fields && 'totalMs' in fields;
}

function describeRequest(kind: string, request: RequestFields, paint: Paint): string {
  const { model, tier, outcome, finishReasons = [], firstTokenMs, totalMs } = request;
  const { promptTokens, cachedTokens, completionTokens } = request;
  const cached = cachedTokens > 0 ? ` (${cachedTokens} cached)` : '';
  const answer = completionTokens > 0 ? ` → ${completionTokens}` : '';
  const decodeMs = totalMs - (firstTokenMs ?? totalMs);
  const speed = completionTokens > 1 && decodeMs > 0 ? (1000 * (completionTokens - 1)) / decodeMs : undefined;
  const reasons = [...new Set(finishReasons)].join(', ');
  return [
    `${kind} ${paint(visible(model), CYAN)}`,
    tier,
    `${promptTokens}${cached}${answer} tokens`,
    ...(firstTokenMs === undefined ? [] : [`first after ${seconds(firstTokenMs)}`]),
    ...(speed === undefined ? [] : [`${speed.toFixed(1)} tokens/s`]),
    `${seconds(totalMs)} in all`,
    outcome === 'ok' ? paint(reasons || 'ok', GREEN) : paint(outcome, YELLOW),
  ].join(' · ');
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
}

/** An error's stack goes on lines of its own. */
function describeFields({ err, ...fields }: Readonly<Record<string, unknown>>, paint: Paint): string {
  const shown = Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => ` ${paint(`${name}=`, DIM)}${visible(shownValue(value))}`);
  const { message, stack } = (err ?? {}) as { message?: string; stack?: string };
  const cause = message === undefined ? '' : `: ${visible(message)}`;
  const trace = stack?.includes('\n    at ') ? `\n${paint(visible(stack), DIM)}` : '';
  return `${cause}${shown.join('')}${trace}`;
}

function shownValue(value: unknown): string {
  return typeof value === 'string' && /^\S+$/.test(value) ? value : JSON.stringify(value);
}
