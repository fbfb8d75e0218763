import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { KeyStore } from '../store/key-store.ts';
import { configFrom } from './given-config.ts';
import { startService } from './service.ts';

afterEach(() => {
  vi.restoreAllMocks();
});

describe('a reload', () => {
  it('that fails is logged, and the server goes on with what it has', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'chairlift-service-'));
    const log: Record<string, unknown>[] = [];
    const logger = pino({}, { write: (line: string) => log.push(JSON.parse(line)) });
    const config = configFrom({ port: 0, database: join(folder, 'a.db'), modelsFolder: folder });
    const service = await startService(config, logger);
    try {
      vi.spyOn(KeyStore.prototype, 'doorKeys').mockRejectedValueOnce(new Error('the disk is gone'));
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
