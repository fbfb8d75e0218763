// Pages in browsers, through the whole server.

import { describe, expect, it } from 'vitest';
import { messages, start, startWithKeys } from '../../../test/support/keyed-server.ts';

const origin = 'https://chat.example';
const preflight = {
  method: 'OPTIONS',
  url: '/v1/chat/completions',
  headers: {
    origin,
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'authorization,content-type,x-stainless-os',
  },
} as const;

describe('a page of another site', () => {
  it('may not ask unless its origin is allowed', async () => {
    for (const [status, corsOrigins] of [
      [404, []],
      [200, ['https://other.example']],
    ] as const) {
      const { app } = await start({ settings: { corsOrigins } });
      const asked = await app.inject(preflight);
      expect(asked.statusCode).toBe(status);
      expect(asked.headers).not.toHaveProperty('access-control-allow-origin');
      const answer = await app.inject({ url: '/v1/models', headers: { origin } });
      expect(answer.headers).not.toHaveProperty('access-control-allow-origin');
    }
  });

  it('may ask ahead without its key, and then with what it announced', async () => {
    const { server, secrets } = await startWithKeys({ mine: {} }, { settings: { corsOrigins: [origin] } });
    const asked = await server.app.inject(preflight);
    expect(asked.statusCode).toBe(200);
    expect(asked.headers).toMatchObject({
      'access-control-allow-origin': origin,
      'access-control-allow-methods': expect.stringContaining('POST'),
      'access-control-allow-headers': 'authorization,content-type,x-stainless-os',
      vary: 'Origin',
    });
    const ask = (headers: Record<string, string>, body: object) =>
      server.app.inject({
        method: 'POST',
        url: preflight.url,
        headers: { origin, ...headers },
        payload: body,
      });
    expect((await ask({}, { messages })).statusCode).toBe(401);
    const key = { authorization: `Bearer ${secrets.mine}` };
    for (const stream of [false, true]) {
      const answer = await ask(key, { messages, max_tokens: 1, stream });
      expect(answer.statusCode).toBe(200);
      expect(answer.headers['access-control-allow-origin']).toBe(origin);
      const exposed = answer.headers['access-control-expose-headers'];
      for (const name of ['x-request-id', 'x-ratelimit-remaining-tokens']) expect(exposed).toContain(name);
    }
  });

  it.each([
    ['http://localhost', true],
    ['http://localhost:3000', true],
    ['https://127.0.0.1:3000', true],
    ['http://[::1]:3000', true],
    ['http://localhost.evil.example', false],
    ['http://notlocalhost', false],
    ['http://127.0.0.1.evil.example', false],
    ['http://evil.example@localhost', false],
    ['null', false],
  ])('may ask from this machine, at any port, where localhost may: %s is %s', async (page, isAllowed) => {
    const { app } = await start({ settings: { corsOrigins: ['localhost'] } });
    const { headers } = await app.inject({ ...preflight, headers: { ...preflight.headers, origin: page } });
    expect(headers['access-control-allow-origin']).toBe(isAllowed ? page : undefined);
  });

  it('hears of errors, too, and everyone may where all may', async () => {
    const { app } = await start({ settings: { corsOrigins: ['*'] } });
    const lost = await app.inject({ url: '/nowhere', headers: { origin } });
    expect(lost.statusCode).toBe(404);
    expect(lost.headers['access-control-allow-origin']).toBe('*');
    const { headers } = await app.inject({ method: 'OPTIONS', url: '/v1/models', headers: { origin } });
    expect(headers['access-control-allow-origin']).toBe('*');
  });
});

describe('a post from a browser, on a server without keys', () => {
  const post = async (headers: Record<string, string>, corsOrigins: readonly string[] = []) => {
    const { app } = await start({ settings: { corsOrigins } });
    const { statusCode } = await app.inject({
      method: 'POST',
      url: '/v1/chat/completions',
      headers: { host: 'localhost:80', 'content-type': 'text/plain', ...headers },
      payload: JSON.stringify({ messages, max_tokens: 1 }),
    });
    return statusCode;
  };

  it.each([
    ['of another site', { origin, 'sec-fetch-site': 'cross-site' }],
    ['of another port', { origin: 'http://localhost:81', 'sec-fetch-site': 'same-site' }],
    ['of a browser without Sec-Fetch-Site', { origin }],
    ['that hides its origin', { origin: 'null' }],
    ['without an origin', { 'sec-fetch-site': 'cross-site' }],
  ])('is refused for a page %s', async (_, headers) => {
    expect(await post(headers)).toBe(403);
    expect(await post({ ...headers, authorization: 'Basic b25lOnR3bw==' })).toBe(403);
  });

  it('is served for an allowed origin, for a page of its own, through a proxy too, and with a key', async () => {
    expect(await post({ origin, 'sec-fetch-site': 'cross-site' }, [origin])).toBe(200);
    expect(await post({ origin, 'sec-fetch-site': 'cross-site' }, ['*'])).toBe(200);
    expect(await post({ origin: 'http://localhost:80', 'sec-fetch-site': 'same-origin' })).toBe(200);
    expect(await post({ origin: 'http://localhost:80' })).toBe(200);
    // A proxy has changed the host.
    expect(await post({ origin, 'sec-fetch-site': 'same-origin' })).toBe(200);
    // A page can add this header only after a preflight.
    expect(await post({ origin, authorization: 'Bearer any' })).toBe(200);
  });
});
