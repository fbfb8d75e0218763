import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { KeyStore } from '../store/key-store.ts';
import { resolvedFrom } from './given-config.ts';
import { startService } from './service.ts';

afterEach(() => {
  vi.restoreAllMocks();
});

describe('a reload', () => {
  it('that fails is logged, and the server goes on with what it has', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'chairlift-service-'));
    const log: Record<string, unknown>[] = [];
    const logger = pino({}, { write: (line: string) => log.push(JSON.parse(line)) });
    const resolved = resolvedFrom({ port: 0, database: join(folder, 'a.db'), modelsFolder: folder });
    const service = await startService(resolved, logger);
    try {
      vi.spyOn(KeyStore.prototype, 'liveKeys').mockRejectedValueOnce(new Error('the disk is gone'));
      await service.reload();
      expect(log.at(-1)).toMatchObject({
        level: 50,
        err: { message: 'the disk is gone' },
        msg: 'cannot read the keys again; what there was stays',
      });
      expect((await fetch(`${service.url}/v1/models`)).status).toBe(200);
      await service.reload();
      expect(log.at(-1)).toMatchObject({ level: 30, msg: 'read the keys again' });
    } finally {
      await service.close();
      rmSync(folder, { recursive: true });
    }
  });
});

describe('responses', () => {
  const start = (folder: string, keepResponses?: string) => {
    const given = { port: 0, database: join(folder, 'a.db'), modelsFolder: folder };
    const resolved = resolvedFrom(keepResponses === undefined ? given : { ...given, keepResponses });
    return startService(resolved, pino({ level: 'silent' }));
  };
  const post = async (url: string, body: object) => {
    const headers = { 'content-type': 'application/json' };
    const answer = await fetch(`${url}/v1/responses`, {
      method: 'POST',
      headers,
      body: JSON.stringify(body),
    });
    return { status: answer.status, body: (await answer.json()) as { id: string; store: boolean } };
  };

  it('are gone on with after a restart, unless none are to be kept', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'chairlift-service-'));
    try {
      const first = await start(folder);
      const made = await post(first.url, { input: 'Hello', max_output_tokens: 3 });
      await first.close();
      expect(made.body.store).toBe(true);
      const next = { input: 'And?', previous_response_id: made.body.id, max_output_tokens: 3 };
      const second = await start(folder);
      expect((await post(second.url, next)).status).toBe(200);
      await second.close();
      const third = await start(folder, '0');
      expect((await post(third.url, next)).status).toBe(400);
      expect((await post(third.url, { input: 'Hello', max_output_tokens: 3 })).body.store).toBe(false);
      await third.close();
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
