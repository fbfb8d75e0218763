// A model by whatever name a command was given: where it lies on this machine, or pulled from the hub first, with progress.

import { existsSync } from 'node:fs';
import type { Command } from 'commander';
import { hubSettings } from '../app/hub-settings.ts';
import { HUB_URL, type PullProgress, pullModel } from '../pool/download.ts';
import type { HubFile } from '../pool/hub.ts';
import { type ModelReference, PullError, referenceName } from '../pool/model-reference.ts';
import { formatBytes } from '../text/byte-size.ts';
import { type FolderFlags, findModel, modelFolder, noSuchModel } from './models-on-disk.ts';
import { formatTable, type ProgressBar, progressBar } from './terminal.ts';
import { UsageError } from './usage-error.ts';

export interface PullFlags extends FolderFlags {
  readonly token?: string;
  readonly hub?: string;
}

/** Exit status of a command ended by Ctrl-C. */
const INTERRUPTED = 130;

export function addHubOptions(command: Command): Command {
  return command
    .option('--token <token>', 'access token for private and gated models; HF_TOKEN where unset')
    .option('--hub <url>', `the hub or a mirror of it; HF_ENDPOINT or ${HUB_URL} where unset`);
}

/** Ends with the usual status where Ctrl-C ends it; undefined then. */
export async function interruptible<Result>(
  action: (signal: AbortSignal) => Promise<Result>,
  note = 'stopped; what came is kept: pull again to go on',
): Promise<Result | undefined> {
  const interrupt = new AbortController();
  const onSignal = () => interrupt.abort();
  process.once('SIGINT', onSignal);
  process.once('SIGTERM', onSignal);
  try {
    return await action(interrupt.signal);
  } catch (error) {
    if (!interrupt.signal.aborted) throw error instanceof PullError ? new UsageError(error.message) : error;
    process.stderr.write(`${note}\n`);
    process.exitCode = INTERRUPTED;
    return undefined;
  } finally {
    process.off('SIGINT', onSignal);
    process.off('SIGTERM', onSignal);
  }
}

/** The path of a model: a path itself, a name that `list` shows, or a name of the hub, which is pulled where it is not here. */
export async function obtainModel(text: string, flags: PullFlags, signal: AbortSignal): Promise<string> {
  const { path, problem, absent } = findModel(text, flags);
  if (absent !== undefined) return fetchAbsent(absent, text, flags, signal);
  if (problem !== undefined) throw new UsageError(problem);
  if (existsSync(path)) return path;
  throw noSuchModel(text);
}

/** Says first that it is not here. */
export function fetchAbsent(
  reference: ModelReference,
  text: string,
  flags: PullFlags,
  signal: AbortSignal,
): Promise<string> {
  process.stderr.write(`${text} is not on this machine: pulling ${referenceName(reference)}\n`);
  return fetchModel(reference, text, flags, signal);
}

/** `text` is what the user wrote. */
export async function fetchModel(
  reference: ModelReference,
  text: string,
  flags: PullFlags,
  signal: AbortSignal,
): Promise<string> {
  const bar = progressBar('pulling');
  try {
    const { path } = await pullModel(reference, {
      folder: modelFolder(flags),
      hub: hubSettings({ url: flags.hub, token: flags.token }),
      signal,
      onProgress: showProgress(bar),
      onFile: (file, outcome) => {
        bar.end();
        process.stderr.write(`${describe(file, outcome)}\n`);
      },
    });
    return path;
  } catch (error) {
    throw error instanceof PullError ? new UsageError(explain(error, reference, text)) : error;
  } finally {
    bar.end();
  }
}

const NOTE_MS = 250;

/** The share is updated at once, the rest now and then. */
function showProgress(bar: ProgressBar): (progress: PullProgress) => void {
  let firstCameMs: number | undefined;
  let notedMs = Number.NEGATIVE_INFINITY;
  let note = '';
  return ({ doneBytes, totalBytes, cameBytes }) => {
    const nowMs = performance.now();
    if (cameBytes > 0) firstCameMs ??= nowMs;
    if (nowMs - notedMs >= NOTE_MS) {
      notedMs = nowMs;
      const seconds = firstCameMs === undefined ? 0 : (nowMs - firstCameMs) / 1000;
      const speed = seconds > 0 ? `, ${formatBytes(Math.round(cameBytes / seconds))}/s` : '';
      note = `${formatBytes(doneBytes)} of ${formatBytes(totalBytes)}${speed}`;
    }
    bar.update(totalBytes === 0 ? 1 : doneBytes / totalBytes, note);
  };
}

function describe({ path, sizeBytes, checksum }: HubFile, outcome: 'fetched' | 'present'): string {
  const checked = checksum === undefined ? 'the hub gives no checksum' : 'checksum right';
  return `${path}  ${formatBytes(sizeBytes)}, ${outcome === 'present' ? 'was here already, ' : ''}${checked}`;
}

function explain({ message, choices }: PullError, { owner, repo }: ModelReference, text: string): string {
  if (choices.length === 0) return message;
  const rows = choices.map(({ path, sizeBytes }) => [`  ${path}`, formatBytes(sizeBytes)] as const);
  const [first] = choices;
  const prefix = text.startsWith('hf:') ? 'hf:' : '';
  const example = `chairlift pull ${prefix}${owner}/${repo}:${first?.path}`;
  return `${message}:\n${formatTable(rows)}\nfor example: ${example}`;
}
