import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import { formatLogLine } from './log-text.ts';

/** What the real logger writes, formatted. */
function logged(write: (logger: pino.Logger) => void, colour = false): string {
  let text = '';
  write(pino({ level: 'trace', base: null }, { write: (line) => (text += formatLogLine(line, colour)) }));
  return text;
}

const request = {
  requestId: 'req_1',
  model: 'small',
  keyId: 'k',
  address: '127.0.0.1',
  tier: 'high',
  stream: true,
  outcome: 'ok',
  finishReasons: ['stop'],
  firstTokenMs: 80,
  totalMs: 1080,
  promptTokens: 24,
  cachedTokens: 0,
  completionTokens: 101,
};

describe('the log at a terminal', () => {
  it('says of a request its model, tier, tokens, speed and end', () => {
    expect(logged((logger) => logger.info(request, 'completion'))).toMatch(
      /^\d\d:\d\d:\d\d {2}completion small · high · 24 → 101 tokens · first after 0\.08 s · 100\.0 tokens\/s · 1\.08 s in all · stop\n$/,
    );
    const left = {
      ...request,
      cachedTokens: 16,
      completionTokens: 0,
      outcome: 'client_left',
      finishReasons: [],
    };
    expect(logged((logger) => logger.info({ ...left, firstTokenMs: undefined }, 'completion'))).toMatch(
      /24 \(16 cached\) tokens · 1\.08 s in all · client_left\n$/,
    );
  });

  it('names warnings and errors, with their fields, and a stack below them', () => {
    expect(logged((logger) => logger.warn({ model: 'a', detail: 'two words' }, 'model failed'))).toMatch(
      / {2}warning: model failed model=a detail="two words"\n$/,
    );
    const text = logged((logger) => logger.error({ err: new Error('broken') }, 'store'));
    expect(text).toMatch(/ {2}error: store: broken\nError: broken\n {4}at /);
  });

  it('has colours only where they are wanted', () => {
    const write = (logger: pino.Logger) => logger.info(request, 'completion');
    expect(logged(write, true)).toContain('\x1b[36msmall\x1b[0m');
    expect(logged(write)).not.toContain('\x1b');
  });

  it('lets no client steer the terminal', () => {
    expect(
      logged((logger) => logger.info({ reason: 'a\x1b[2Jb', other: ['\x1b'] }, 'refused\x1b[2J')),
    ).not.toContain('\x1b');
  });

  it('leaves alone what is no line of the log', () => {
    for (const text of ['plain words\n', '{"a":1}\n', '{"level":30', 'null\n'])
      expect(formatLogLine(text, true)).toBe(text);
  });
});
