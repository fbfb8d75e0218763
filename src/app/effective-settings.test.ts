import { describe, expect, it } from 'vitest';
import { resolveConfig } from '../config.ts';
import { optionNames } from '../config-options.ts';
import { effectiveSettings } from './effective-settings.ts';

const settingsOf = (flags: object, environment: Record<string, string> = {}) =>
  effectiveSettings(resolveConfig({ flags: { ...flags }, environment, home: '/nonexistent' }), {
    threads: 8,
  });

describe('the effective settings', () => {
  it('are all of them, in the groups of the help, with what each means in plain text', () => {
    const { settings, file } = settingsOf({});
    expect(file).toBeUndefined();
    expect(settings.map(({ name }) => name)).toEqual(optionNames);
    expect(new Set(settings.map(({ group }) => group)).size).toBe(8);
    expect(settings.find(({ name }) => name === 'kvBlocks')?.group).toBe('Computing');
    for (const { meaning } of settings) expect(meaning).not.toMatch(/`|\]\(/);
  });

  it('say where each value comes from, and write it as it may be given', () => {
    const { settings } = settingsOf({ keepAlive: '90m', memory: '2GB' }, { CHAIRLIFT_BODY_LIMIT: '1MiB' });
    const of = (wanted: string) => {
      const { value, source } = settings.find(({ name }) => name === wanted) ?? {};
      return [value, source];
    };
    expect(of('keepAlive')).toEqual(['90m', 'flag']);
    expect(of('memory')).toEqual(['2GB', 'flag']);
    expect(of('bodyLimit')).toEqual(['1MiB', 'environment']);
    expect(of('keepFiles')).toEqual(['30d', 'default']);
    expect(of('threads')).toEqual(['8', 'chosen here']);
    expect(of('gpu')).toEqual([undefined, 'default']);
  });

  it('have no secret in them, wherever it was given', () => {
    const { settings } = settingsOf(
      { natsToken: 'flounder' },
      {
        CHAIRLIFT_NATS_PASSWORD: 'flounder',
        CHAIRLIFT_JOIN: 'nats://u:flounder@a:4222',
        CHAIRLIFT_DATABASE: 'postgres://u:flounder@host/name',
        CHAIRLIFT_UPSTREAMS: JSON.stringify([
          { name: 'a', url: 'https://u:flounder@api.example/v1', models: ['x'], key: 'flounder' },
        ]),
      },
    );
    expect(JSON.stringify(settings)).not.toContain('flounder');
    expect(settings.find(({ name }) => name === 'natsToken')).toMatchObject({
      value: '(hidden)',
      secret: true,
      source: 'flag',
    });
  });
});
