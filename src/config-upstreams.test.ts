import { describe, expect, it } from 'vitest';
import { ConfigError, resolveConfig } from './config.ts';

const resolve = (upstreams: unknown, environment: Record<string, string> = {}) =>
  resolveConfig({ flags: { upstreams }, environment, home: '/nowhere' }).config.upstreams;

const plain = { name: 'cloud', url: 'https://api.example/v1', models: ['large'] };

describe('the setting upstreams', () => {
  it('is a list of objects, or the same as JSON, with defaults for what is left out', () => {
    const [one] = resolve([plain]);
    expect(one).toEqual({
      name: 'cloud',
      url: 'https://api.example/v1',
      protocol: 'openai',
      key: undefined,
      keyVariable: undefined,
      keyFile: undefined,
      models: [{ name: 'large', as: 'large', fallbackFor: [], waitSeconds: undefined, maxTokens: undefined }],
      timeoutSeconds: 120,
      allowHttp: false,
      parameters: [],
      lengthField: 'max_tokens',
      maxRequests: undefined,
    });
    expect(resolve(JSON.stringify([plain]))).toEqual([one]);
    expect(resolveConfig({ flags: {}, environment: {}, home: '/nowhere' }).config.upstreams).toEqual([]);
  });

  it('has models by other names, which stand in for local ones', () => {
    const model = { name: 'small-2026', as: 'small', fallbackFor: ['qwen3'], wait: '10s', maxTokens: 99 };
    expect(resolve([{ ...plain, models: [model] }])[0]?.models).toEqual([
      { name: 'small-2026', as: 'small', fallbackFor: ['qwen3'], waitSeconds: 10, maxTokens: 99 },
    ]);
  });

  it('takes keys from variables, which must be there', () => {
    const given = [{ ...plain, keyVariable: 'CLOUD_KEY' }];
    expect(resolve(given, { CLOUD_KEY: 'sk-1' })[0]?.key).toBe('sk-1');
    expect(() => resolve(given)).toThrow(/cloud: the variable CLOUD_KEY is not set/);
  });

  it.each([
    ['x', /--upstreams: cannot be read as JSON/],
    [{}, /--upstreams: give a list of upstreams/],
    [['x'], /--upstreams\[0\]: give an object/],
    [[{ ...plain, name: 'my cloud' }], /--upstreams\[0\]\.name: give 1 to 64 letters/],
    [[{ ...plain, url: '' }], /--upstreams\[0\]\.url: give a text/],
    [[{ ...plain, models: [] }], /--upstreams\[0\]\.models: name at least one model/],
    [[{ ...plain, models: [{ as: 'x' }] }], /--upstreams\[0\]\.models\[0\]\.name: give a text/],
    [
      [{ ...plain, models: [{ name: 'x', wait: '1s' }] }],
      /--upstreams\[0\]\.models\[0\]\.wait: needs fallbackFor/,
    ],
    [
      [{ ...plain, models: [{ name: 'x', fallbackFor: ['y'], wait: 'soon' }] }],
      /\.wait: give a time such as/,
    ],
    [
      [{ ...plain, models: ['default'] }],
      /--upstreams\[0\]\.models\[0\]: 'default' means models that are here/,
    ],
    [[{ ...plain, models: [{ name: 'x', as: '*' }] }], /\.models\[0\]\.as: '\*' means models that are here/],
    [[{ ...plain, timeout: 0 }], /--upstreams\[0\]\.timeout: give a time above 0/],
    [[{ ...plain, protocol: 'gopher' }], /--upstreams\[0\]\.protocol: give one of openai/],
    [[{ ...plain, apiKey: 'x' }], /--upstreams\[0\]\.apiKey: is no setting; there are name, url/],
    [[{ ...plain, key: 'a', keyFile: 'b' }], /--upstreams\[0\]: key and keyFile exclude each other/],
    [[{ ...plain, maxRequests: 0.5 }], /--upstreams\[0\]\.maxRequests: give a whole number/],
    [[plain, plain], /--upstreams: there are two upstreams named cloud/],
  ])('refuses %j with the place and the remedy', (given, message) => {
    expect(() => resolve(given)).toThrow(ConfigError);
    expect(() => resolve(given)).toThrow(message);
  });
});
