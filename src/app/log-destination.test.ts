import { execFileSync } from 'node:child_process';
import { closeSync, constants, mkdtempSync, openSync, readFileSync, readSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { eventually } from '../../test/support/eventually.ts';
import { LogDestination } from './log-destination.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'chairlift-log-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

function pipe(): { reader: number; writer: number } {
  const path = join(folder, 'pipe');
  execFileSync('mkfifo', [path]);
  const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  return { reader, writer: openSync(path, constants.O_WRONLY) };
}

function readAll(reader: number): string {
  const bytes = Buffer.alloc(1 << 20);
  let text = '';
  try {
    for (;;) text += bytes.toString('utf8', 0, readSync(reader, bytes));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EAGAIN') return text;
    throw error;
  }
}

describe('the log', () => {
  it('of a file has every line, in order', async () => {
    const path = join(folder, 'log');
    const file = openSync(path, 'a');
    const log = new LogDestination(file);
    const lines = Array.from({ length: 500 }, (_, n) => `line ${n}\n`);
    for (const line of lines) log.write(line);
    await eventually(() => expect(readFileSync(path, 'utf8')).toBe(lines.join('')));
    closeSync(file);
  });

  it('that nobody reads any more is dropped', async () => {
    const { reader, writer } = pipe();
    closeSync(reader);
    const log = new LogDestination(writer);
    for (let n = 0; n < 3; n++) {
      log.write('nobody hears this\n');
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    log.flushSync();
    closeSync(writer);
  });

  it('of a reader that stops reading holds nothing up and stays small, and goes on when it reads again', async () => {
    const { reader, writer } = pipe();
    const log = new LogDestination(writer, 10_000);
    for (let n = 0; n < 5000; n++) log.write(`a line of a log that nobody reads for now, ${n}\n`);
    log.flushSync();
    let text = '';
    const hears = (line: string) =>
      eventually(() => {
        text += readAll(reader);
        expect(text).toContain(line);
      });
    // The first line may still be in flight when the others are flushed.
    await hears('nobody reads for now, 0\n');
    log.write('after\n');
    await hears('after\n');
    closeSync(reader);
    closeSync(writer);
  });
});
