// `chairlift pull hf:owner/repo[:file]`: downloads a model from the Hugging Face hub to the models folder. An interrupted pull
// is resumed.

import type { Command } from 'commander';
import { hubSettings } from '../app/hub-settings.ts';
import { HUB_URL, type PullProgress, pullModel } from '../pool/download.ts';
import type { HubFile } from '../pool/hub.ts';
import { PullError, parseReference } from '../pool/model-reference.ts';
import { addFolderOptions, type FolderFlags, modelFolder, modelsOnDisk } from './models-on-disk.ts';
import { formatBytes, formatTable, type ProgressBar, progressBar } from './terminal.ts';
import { UsageError } from './usage-error.ts';

interface PullFlags extends FolderFlags {
  readonly token?: string;
  readonly hub?: string;
}

/** Exit status of a command ended by Ctrl-C. */
const INTERRUPTED = 130;

export function addPull(program: Command): void {
  const command = program
    .command('pull')
    .description('bring a model from the Hugging Face hub')
    .argument('<model>', 'hf:owner/repo, or hf:owner/repo:file with a GGUF or its tag, such as Q4_K_M')
    .option('--token <token>', 'access token for private and gated models; HF_TOKEN where unset')
    .option('--hub <url>', `the hub or a mirror of it; HF_ENDPOINT or ${HUB_URL} where unset`);
  addFolderOptions(command).action(pull);
}

async function pull(model: string, flags: PullFlags): Promise<void> {
  const interrupt = new AbortController();
  const onSignal = () => interrupt.abort();
  process.once('SIGINT', onSignal);
  process.once('SIGTERM', onSignal);
  try {
    await fetchModel(model, flags, interrupt.signal);
  } catch (error) {
    if (interrupt.signal.aborted) {
      process.stderr.write('stopped; what came is kept: pull again to go on\n');
      process.exitCode = INTERRUPTED;
    } else if (error instanceof PullError) throw new UsageError(explain(error, model));
    else throw error;
  } finally {
    process.off('SIGINT', onSignal);
    process.off('SIGTERM', onSignal);
  }
}

async function fetchModel(model: string, flags: PullFlags, signal: AbortSignal): Promise<void> {
  const reference = parseReference(model);
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
    reportPulled(path, flags);
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

/** A complete model may still be of an architecture that is not supported. */
function reportPulled(path: string, flags: FolderFlags): void {
  const model = modelsOnDisk(flags).find((one) => one.path === path);
  process.stdout.write(`${model?.name ?? path}\n`);
  if (model?.problem !== undefined) process.stderr.write(`it cannot be served: ${model.problem}\n`);
}

function explain({ message, choices }: PullError, model: string): string {
  if (choices.length === 0) return message;
  const rows = choices.map(({ path, sizeBytes }) => [`  ${path}`, formatBytes(sizeBytes)] as const);
  const [first] = choices;
  const example = `chairlift pull ${model
    .split(':')
    .slice(0, model.startsWith('hf:') ? 2 : 1)
    .join(':')}:${first?.path}`;
  return `${message}:\n${formatTable(rows)}\nfor example: ${example}`;
}
