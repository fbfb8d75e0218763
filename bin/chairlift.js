#!/usr/bin/env node
// The launcher: starts the compiled command line; in a checkout that was never set up, sets it up first.

import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const main = new URL('../dist/cli/main.js', import.meta.url);

if (!existsSync(main)) {
  const setup = fileURLToPath(new URL('../scripts/setup.js', import.meta.url));
  const { status } = spawnSync(process.execPath, [setup], { stdio: ['ignore', 2, 2] });
  if (status !== 0) process.exit(status ?? 1);
}

await import(main.href);
