// `chairlift pull MODEL`: downloads a model from the Hugging Face hub to the models folder. An interrupted pull is resumed.

import type { Command } from 'commander';
import { parseReference } from '../pool/model-reference.ts';
import { addFolderOptions, homesOf, modelsOnDisk } from './models-on-disk.ts';
import { addHubOptions, fetchModel, interruptible, type PullFlags } from './obtain-model.ts';

export function addPull(program: Command): void {
  const command = program
    .command('pull')
    .description('bring a model from the Hugging Face hub')
    .argument(
      '<model>',
      'hf:owner/repo, or hf:owner/repo:file with a GGUF or its tag, such as Q4_K_M; or a short name, such as llama3.2:1b',
    );
  addFolderOptions(addHubOptions(command)).action(pull);
}

async function pull(model: string, flags: PullFlags): Promise<void> {
  await interruptible(async (signal) => {
    const path = await fetchModel(parseReference(model, homesOf(flags).shortNames), model, flags, signal);
    reportPulled(path, flags);
  });
}

/** A complete model may still be of an architecture that is not supported. */
function reportPulled(path: string, flags: PullFlags): void {
  const model = modelsOnDisk(flags).find((one) => one.path === path);
  process.stdout.write(`${model?.name ?? path}\n`);
  if (model?.problem !== undefined) process.stderr.write(`it cannot be served: ${model.problem}\n`);
}
