// What the server reports of itself: its log and its metrics, with the embedded model.

import { describe, expect, it } from 'vitest';
import { messages, start, startWithKeys } from '../../../test/support/keyed-server.ts';
import type { TestServer } from '../../../test/support/test-server.ts';

describe('the log', () => {
  it('holds no prompt and no answer unless set to', async () => {
    const secret = 'Snow in the morning';
    const ask = (server: TestServer) =>
      server.app.inject({
        method: 'POST',
        url: '/v1/chat/completions',
        payload: { messages: [{ role: 'user', content: secret }], max_tokens: 2 },
      });
    const quiet = await start();
    const { headers } = await ask(quiet);
    expect(JSON.stringify(quiet.log)).not.toContain(secret);
    expect(quiet.log.find(({ msg }) => msg === 'completion')).toMatchObject({
      requestId: headers['x-request-id'],
    });
    const loud = await start({ settings: { logPrompts: true } });
    await ask(loud);
    expect(JSON.stringify(loud.log)).toContain(secret);
  });
});

describe('metrics', () => {
  it('are by tier, and what runs under /v1/batch as LOW', async () => {
    const { call, secrets } = await startWithKeys({ fast: { tier: 'high' } });
    await call(secrets.fast, '/v1/chat/completions', { messages, max_tokens: 2 });
    await call(secrets.fast, '/v1/batch/chat/completions', { messages, max_tokens: 2 });
    const { body } = await call(undefined, '/metrics');
    for (const name of ['time_to_first_token_seconds', 'queue_seconds', 'request_seconds']) {
      for (const tier of ['high', 'low'])
        expect(body).toContain(`chairlift_${name}_count{model="demo",tier="${tier}"} 1\n`);
    }
  });

  it('count what happened, under one name each', async () => {
    const { app } = await start();
    await app.inject({ method: 'POST', url: '/v1/chat/completions', payload: { messages, max_tokens: 5 } });
    await app.inject({ method: 'POST', url: '/v1/chat/completions', payload: {} });
    const { body, headers } = await app.inject({ url: '/metrics' });
    expect(headers['content-type']).toContain('text/plain');
    const value = (line: string) =>
      Number(
        body
          .split('\n')
          .find((one) => one.startsWith(`chairlift_${line} `))
          ?.split(' ')
          .at(-1),
      );
    expect(value('generated_tokens_total{model="demo"}')).toBe(5);
    expect(value('time_to_first_token_seconds_count{model="demo",tier="normal"}')).toBe(1);
    expect(value('request_seconds_count{model="demo",tier="normal"}')).toBe(1);
    expect(value('time_per_output_token_seconds_count{model="demo"}')).toBe(1);
    expect(value('queue_seconds_count{model="demo",tier="normal"}')).toBe(1);
    expect(value('step_seconds_count{model="demo"}')).toBeGreaterThanOrEqual(5);
    expect(value('errors_total{kind="missing_required_parameter"}')).toBe(1);
    expect(value('engine_up{model="demo"}')).toBe(1);
    for (const outcome of ['accepted', 'rejected']) {
      const labels = `{model="demo",outcome="${outcome}"}`;
      expect(value(`draft_tokens_total${labels}`)).toBeGreaterThanOrEqual(0);
      expect(value(`guessed_tokens_total${labels}`)).toBe(value(`draft_tokens_total${labels}`));
    }
    const blocks = ['free', 'cached', 'used'].map((state) => value(`blocks{model="demo",state="${state}"}`));
    expect(blocks.reduce((sum, count) => sum + count)).toBe(512);
    const names = body.split('\n').filter((line) => line.startsWith('# TYPE'));
    expect(new Set(names).size).toBe(names.length);
  });
});
