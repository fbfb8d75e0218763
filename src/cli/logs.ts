// `chairlift logs`: the log of the server on this machine, where it goes to a file or to systemd's journal; else where to look.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Command } from 'commander';
import { formatLogLine, usesColour } from '../app/log-text.ts';
import { processInputs } from '../config.ts';
import { messageOf } from '../runtime/error-message.ts';
import { parseCount } from './flags.ts';
import type { ServerRecord } from './server-records.ts';
import { chosenServer } from './stop.ts';
import { UsageError } from './usage-error.ts';

interface LogsOptions {
  readonly url?: string;
  readonly lines: number;
  readonly follow?: true;
  readonly json?: true;
}

export function addLogs(program: Command): void {
  program
    .command('logs')
    .description(
      "show the log of the server on this machine, where it goes to a file or the system's journal",
    )
    .option('--url <url>', 'of which server, where several run')
    .option('-n, --lines <count>', 'how many lines', parseCount, 100)
    .option('-f, --follow', 'go on with new lines')
    .option('--json', 'as it is written; for people otherwise')
    .action(async (options: LogsOptions) => showLog(chosenServer(options.url), options));
}

async function showLog(record: ServerRecord, options: LogsOptions): Promise<void> {
  const { log, url, pid } = record;
  const server = `the server at ${url} (process ${pid})`;
  switch (log.kind) {
    case 'file':
      return showFile(log.path, options);
    case 'journal':
      return showJournal(log.unit, options);
    case 'terminal':
      throw new UsageError(
        `${server} writes its log to the terminal it was started in; 'chairlift serve 2>FILE' would keep it`,
      );
    case 'pipe':
      throw new UsageError(
        `${server} gives its log to the program that started it: ask that one, as with 'docker logs' or 'kubectl logs'`,
      );
  }
}

async function showJournal(unit: string | undefined, { lines, follow }: LogsOptions): Promise<void> {
  const args = [
    '-n',
    String(lines),
    '-o',
    'cat',
    ...(follow ? ['-f'] : []),
    ...(unit === undefined ? [] : ['-u', unit]),
  ];
  const journal = spawn('journalctl', args, { stdio: ['ignore', 'inherit', 'inherit'] });
  const [code] = (await once(journal, 'exit')) as [number | null];
  process.exitCode = code ?? 1;
}

const POLL_MS = 250;
const CHUNK_BYTES = 64 * 1024;

async function showFile(path: string, { lines, follow, json }: LogsOptions): Promise<void> {
  const colour = process.stdout.isTTY === true && usesColour(processInputs({}).environment);
  const show = (text: string) => {
    for (const line of text.split(/(?<=\n)/)) process.stdout.write(json ? line : formatLogLine(line, colour));
  };
  const file = openLog(path);
  try {
    const { text, endBytes } = lastLines(file, lines);
    show(text);
    let rest = '';
    for (let at = endBytes; follow; await sleep(POLL_MS)) {
      const { size } = fstatSync(file);
      // A log that was emptied begins again.
      const from = size < at ? 0 : at;
      const whole = rest + readBetween(file, from, size).toString('utf8');
      at = size;
      const end = whole.lastIndexOf('\n') + 1;
      rest = whole.slice(end);
      show(whole.slice(0, end));
    }
  } finally {
    closeSync(file);
  }
}

function openLog(path: string): number {
  try {
    return openSync(path, 'r');
  } catch (error) {
    throw new UsageError(`the log ${path} cannot be read: ${messageOf(error)}`);
  }
}

/** Reads from the end, as much as that many lines need. */
function lastLines(file: number, lines: number): { text: string; endBytes: number } {
  const endBytes = fstatSync(file).size;
  for (let bytes = CHUNK_BYTES; ; bytes *= 4) {
    const from = Math.max(0, endBytes - bytes);
    const all = readBetween(file, from, endBytes)
      .toString('utf8')
      .split(/(?<=\n)/);
    if (from === 0 || all.length > lines) return { text: all.slice(-lines).join(''), endBytes };
  }
}

function readBetween(file: number, from: number, to: number): Buffer {
  const bytes = Buffer.alloc(to - from);
  const read = readSync(file, bytes, 0, bytes.length, from);
  return bytes.subarray(0, read);
}
