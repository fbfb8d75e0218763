import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ConfigError, resolveConfig } from './config.ts';
import { type ConfigOption, configOptions, flagOf, optionNames, variableOf } from './config-options.ts';

let home: string;
let file: string;
beforeAll(() => {
  home = mkdtempSync(join(tmpdir(), 'chairlift-config-'));
  file = join(home, 'settings.json');
  writeFileSync(file, JSON.stringify({ port: 9001, threads: 3, memory: '2GiB', pin: ['a', 'b'] }));
});
afterAll(() => rmSync(home, { recursive: true }));

const resolve = (flags: Record<string, unknown>, environment: Record<string, string> = {}) =>
  resolveConfig({ flags, environment, home });

describe('the configuration', () => {
  it('takes flags over environment over file over defaults, and says which', () => {
    const { config, sources } = resolve(
      { config: file, port: '9003' },
      { CHAIRLIFT_PORT: '9002', CHAIRLIFT_THREADS: '5' },
    );
    expect(config).toMatchObject({
      port: 9003,
      threads: 5,
      memory: 2 ** 31,
      pin: ['a', 'b'],
      host: '127.0.0.1',
    });
    expect(sources).toMatchObject({ port: 'flag', threads: 'environment', memory: 'file', host: 'default' });
  });

  it('takes the closer of two settings that exclude each other', () => {
    const { config, sources } = resolve({ kvMemory: '1GiB' }, { CHAIRLIFT_KV_BLOCKS: '64' });
    expect(config).toMatchObject({ kvMemory: 2 ** 30, kvBlocks: undefined });
    expect(sources).toMatchObject({ kvMemory: 'flag', kvBlocks: 'default' });
    expect(() => resolve({}, { CHAIRLIFT_KV_BLOCKS: '64', CHAIRLIFT_KV_MEMORY: '1GiB' })).toThrow(
      'CHAIRLIFT_KV_BLOCKS and CHAIRLIFT_KV_MEMORY exclude each other',
    );
  });

  it('passes over what Kubernetes says of a service with its name', () => {
    const links = { CHAIRLIFT_PORT: 'tcp://10.0.0.1:80', CHAIRLIFT_ADMIN_PORT: 'tcp://10.0.0.2:8001' };
    const { config, sources } = resolve({ config: file }, links);
    expect(config).toMatchObject({ port: 9001, adminPort: undefined });
    expect(sources).toMatchObject({ port: 'file', adminPort: 'default' });
    expect(() => resolve({}, { CHAIRLIFT_PORT: 'eighty' })).toThrow(/CHAIRLIFT_PORT: give a whole number/);
  });

  it('is frozen', () => {
    expect(Object.isFrozen(resolve({}).config)).toBe(true);
  });

  it.each([
    [{ port: 'eighty' }, /--port: give a whole number from 0 to 65535/],
    [{ port: '70000' }, /--port/],
    [{ memory: 'much' }, /--memory: give a size/],
    [{ keepAlive: 'soon' }, /--keep-alive: give a time/],
    [{ keepAlive: '-5m' }, /--keep-alive: give a time/],
    [{ requestTimeout: Number.NaN }, /--request-timeout: give a time/],
    [{ requestTimeout: Number.POSITIVE_INFINITY }, /--request-timeout: give a time/],
    [{ keepAlive: '900000h' }, /--keep-alive: 900000h is more than 100 years/],
    [{ shutdownLimit: 1e12 }, /--shutdown-limit: 1000000000000 is more than 100 years/],
    [{ kvType: 'q2' }, /--kv-type: give one of f16, q8/],
    [{ trustProxy: 'loopback,my-proxy' }, /--trust-proxy: give IP addresses.*not my-proxy/],
    [{ trustProxy: ['10.0.0.0/33'] }, /--trust-proxy/],
    [{ corsOrigins: ['chat.example'] }, /--cors-origins: give origins such as .*not chat.example/],
    [{ corsOrigins: 'https://chat.example/page' }, /--cors-origins/],
    [
      { kvBlocks: '64', kvMemory: '1GiB' },
      /^--kv-blocks and --kv-memory exclude each other: give one of them$/,
    ],
    [{ config: '/nowhere.json' }, /\/nowhere.json: the config file does not exist/],
  ])('refuses %j with the place and the remedy', (flags, message) => {
    expect(() => resolve(flags)).toThrow(ConfigError);
    expect(() => resolve(flags)).toThrow(message);
  });

  it('refuses unknown settings in the file, and files that are no JSON', () => {
    const bad = join(home, 'bad.json');
    writeFileSync(bad, '{"ports": 1}');
    expect(() => resolve({ config: bad })).toThrow(/ports is no setting/);
    writeFileSync(bad, 'port: 1');
    expect(() => resolve({ config: bad })).toThrow(/cannot be read as JSON/);
  });

  it('reads origins as browsers write them', () => {
    const given = 'https://Chat.example/, app://obsidian.md, localhost, *';
    expect(resolve({ corsOrigins: given }).config.corsOrigins).toEqual([
      'https://chat.example',
      'app://obsidian.md',
      'localhost',
      '*',
    ]);
  });

  it('reads addresses and networks', () => {
    const given = ['loopback', '10.0.0.0/8', '::1', 'fd00::/8', '192.168.1.7'];
    expect(resolve({ trustProxy: given.join(', ') }).config.trustProxy).toEqual(given);
  });

  it('reads servers that are given one by one, with commas between them, or both', () => {
    for (const join of [['a:1', 'b:2', 'c:3'], ['a:1,b:2', 'c:3'], 'a:1, b:2,c:3'])
      expect(resolve({ join }).config.join).toEqual(['a:1', 'b:2', 'c:3']);
  });

  it.each([
    ['90', 90],
    ['90s', 90],
    ['10m', 600],
    ['1h', 3600],
    ['500ms', 0.5],
    ['720h', 2_592_000],
    ['30d', 2_592_000],
    ['0', 0],
  ])('reads the time %s', (text, seconds) => {
    expect(resolve({ keepAlive: text }).config.keepAlive).toBe(seconds);
  });
});

describe('docs/configuration.md', () => {
  it('lists every setting with its flag, variable, default and meaning, and no other', () => {
    const page = readFileSync(new URL('../docs/configuration.md', import.meta.url), 'utf8');
    const rows = page.split('\n').filter((line) => line.startsWith('| `'));
    const expected = optionNames.map((name) => {
      const { default: value, meaning }: ConfigOption = configOptions[name];
      const shown = value === undefined ? '' : Array.isArray(value) ? 'none' : String(value);
      return `| \`${name}\` | \`${flagOf(name)}\` | \`${variableOf(name)}\` | ${shown} | ${meaning} |`;
    });
    expect(rows).toEqual(expected);
  });
});
