// The real program with the embedded model, named demo, as the clients of test/clients meet it.

import { beforeAll } from 'vitest';
import { serverHome } from '../support/server-process.ts';

export function demoServer(...flags: string[]): () => string {
  const home = serverHome();
  let url = '';
  beforeAll(async () => {
    ({ url } = await home.start('--alias', 'demo=chairlift-demo-14m-q8_0', ...flags));
  });
  return () => url;
}
