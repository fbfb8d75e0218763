import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { resolveConfig } from './config.ts';
import { configOptions } from './config-options.ts';
import { settingText } from './config-text.ts';

describe('the text of a value', () => {
  it.each(['memory', 'keepAlive'] as const)('of %s is read as the same value', (name) => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 2 ** 31 }),
        fc.constantFrom(1, 60, 1024, 1_000_000),
        (count, unit) => {
          const value = count * (name === 'memory' ? unit : 1);
          const text = settingText(configOptions[name].kind, value);
          const { config } = resolveConfig({
            flags: { [name]: text },
            environment: {},
            home: '/nonexistent',
          });
          expect(config[name]).toBe(value);
        },
      ),
    );
  });

  it('has the largest unit that rounds nothing', () => {
    const { kind } = configOptions.memory;
    expect(
      [8 * 1024 ** 2, 2e9, 1024 ** 4, 1000, 1_500_000_001].map((bytes) => settingText(kind, bytes)),
    ).toEqual(['8MiB', '2GB', '1TiB', '1000', '1500000001']);
    const { kind: time } = configOptions.keepAlive;
    expect([600, 60, 90, 0.5, 3600, 86_400 * 30].map((seconds) => settingText(time, seconds))).toEqual([
      '10m',
      '60s',
      '90s',
      '0.5s',
      '1h',
      '30d',
    ]);
  });
});
