import type { Command } from 'commander';
import { openText } from '../text/open-text.ts';
import { openModelFiles } from '../weights/open-model.ts';
import { MODEL_MEANING, parseModel } from './models-on-disk.ts';

export function addTokenize(program: Command): void {
  program
    .command('tokenize')
    .description('show the token ids of a text')
    .argument('<text>')
    .requiredOption('-m, --model <path>', MODEL_MEANING, parseModel)
    .option('--special', 'put BOS in front where the model wants it, and parse special tokens in the text')
    .option('--json', 'print JSON')
    .action((text: string, options: { model: string; special?: true; json?: true }) => {
      // Only the tokenizer: a file without weights is enough.
      const files = openModelFiles(options.model);
      files.weights.close();
      const { tokenizer } = openText(files);
      const special = options.special === true;
      const ids = [...tokenizer.encode(text, { special, bos: special })];
      if (options.json) {
        process.stdout.write(`${JSON.stringify({ ids })}\n`);
        return;
      }
      const lines = ids.map(
        (id) => `${String(id).padStart(8)}  ${JSON.stringify(tokenizer.tokenText(id) ?? '')}`,
      );
      process.stdout.write(`${lines.join('\n')}\n${ids.length} tokens\n`);
    });
}
