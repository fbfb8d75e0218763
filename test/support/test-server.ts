// A server over the embedded model, on a socket of this machine or on none.

import { pino } from 'pino';
import type { ServerDeps } from '../../src/server/context.ts';
import { type ChairliftServer, createServer } from '../../src/server/create-server.ts';
import { Limiter } from '../../src/server/limits/limiter.ts';
import { defaultSettings, type ServerSettings } from '../../src/server/settings.ts';
import { type EmbeddedPool, type EmbeddedPoolOptions, embeddedPool } from './embedded-pool.ts';

export interface TestServer {
  readonly app: ChairliftServer;
  readonly pool: EmbeddedPool;
  /** What was logged. */
  readonly log: Record<string, unknown>[];
  /** Listens on a free port and gives the address. */
  listen(): Promise<string>;
  close(): Promise<void>;
}

export interface TestServerOptions extends Partial<Omit<ServerDeps, 'settings' | 'pool' | 'logger'>> {
  readonly settings?: Partial<ServerSettings>;
  readonly pool?: EmbeddedPoolOptions;
}

export async function testServer(options: TestServerOptions = {}): Promise<TestServer> {
  const pool = await embeddedPool(options.pool);
  const log: Record<string, unknown>[] = [];
  const logger = pino({ level: 'debug' }, { write: (line: string) => log.push(JSON.parse(line)) });
  const app = createServer({
    limiter: new Limiter(),
    version: '0.0.0-test',
    ...options,
    pool,
    logger,
    settings: { ...defaultSettings, ...options.settings },
  });
  await app.startBackground();
  return {
    app,
    pool,
    log,
    listen: () => app.listen({ host: '127.0.0.1', port: 0 }),
    async close() {
      await app.drain(0);
      await app.close();
      await pool.close(0);
    },
  };
}
