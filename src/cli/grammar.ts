// `chairlift grammar (--schema FILE | --regex R | --grammar FILE) --model PATH TEXT-FILE…`: whether texts match a schema, a
// regular expression or a grammar, token by token as the model would write them.

import type { Command } from 'commander';
import { rulesOf } from '../grammar/assemble.ts';
import { checkText, type TextVerdict } from '../grammar/check-text.ts';
import { compileRules } from '../grammar/compile.ts';
import type { Expression } from '../grammar/expression.ts';
import { GrammarError } from '../grammar/grammar-error.ts';
import { SharedMasks } from '../grammar/masks.ts';
import { Grammar } from '../grammar/matcher.ts';
import { vocabularyTables } from '../grammar/vocabulary.ts';
import { openText } from '../text/open-text.ts';
import type { Tokenizer } from '../text/tokenizer.ts';
import { openModelFiles } from '../weights/open-model.ts';
import { addStructureOptions, ONE_OF, readText, type StructureFlags, structureFrom } from './flags.ts';
import { MODEL_MEANING, parseModel } from './models-on-disk.ts';
import { UsageError } from './usage-error.ts';

interface GrammarFlags extends StructureFlags {
  readonly model: string;
  readonly json?: true;
}

const NOT_ENFORCED = 2;
const KEPT_MASKS = 1000;

export function addGrammar(program: Command): void {
  const command = program
    .command('grammar')
    .description('tell whether texts are what a schema, a regular expression or a grammar allows')
    .argument('<text-files...>');
  addStructureOptions(command)
    .requiredOption('-m, --model <path>', `whose tokens the texts are made of: ${MODEL_MEANING}`, parseModel)
    .option('--json', 'print one JSON object for each file')
    .action((files: readonly string[], flags: GrammarFlags) => run(files, flags));
}

function run(files: readonly string[], flags: GrammarFlags): void {
  const { tokenizer } = openTokenizer(flags.model);
  const texts = files.map((file) => ({ file, text: readText(file) }));
  const check = checkerOf(expressionOf(flags), tokenizer, flags.json === true);
  if (check === undefined) return;
  for (const { file, text } of texts) {
    const verdict = check(text);
    process.stdout.write(
      `${flags.json ? JSON.stringify({ file, ...verdict }) : `${file}: ${inWords(verdict)}`}\n`,
    );
  }
}

function openTokenizer(path: string): { readonly tokenizer: Tokenizer } {
  const files = openModelFiles(path);
  files.weights.close();
  return openText(files);
}

function checkerOf(
  expression: Expression,
  tokenizer: Tokenizer,
  json: boolean,
): ((text: string) => TextVerdict) | undefined {
  try {
    const tables = compileRules(rulesOf(expression, () => undefined).rules);
    const grammar = new Grammar(tables, vocabularyTables(tokenizer), new SharedMasks(KEPT_MASKS));
    return (text) => lenient(text, (one) => checkText(grammar, tokenizer, one));
  } catch (error) {
    if (!(error instanceof GrammarError)) throw error;
    // Only the empty text matches.
    if (error.problem === 'empty') return () => ({ accepted: false, at: 0, problem: error.message });
    const { message, keyword = null } = error;
    if (json) process.stdout.write(`${JSON.stringify({ enforced: false, keyword, message })}\n`);
    process.stderr.write(`chairlift: ${message}\n`);
    process.exitCode = NOT_ENFORCED;
    return undefined;
  }
}

/** Text files end with a line break that is not part of the text. */
function lenient(text: string, check: (text: string) => TextVerdict): TextVerdict {
  const verdict = check(text);
  const trimmed = text.replace(/\r?\n$/, '');
  if (verdict.accepted || trimmed === text) return verdict;
  const second = check(trimmed);
  return second.accepted ? second : verdict;
}

function inWords(verdict: TextVerdict): string {
  return verdict.accepted ? 'accepted' : `not accepted: byte ${verdict.at}, ${verdict.problem}`;
}

function expressionOf(flags: GrammarFlags): Expression {
  const structure = structureFrom(flags);
  if (structure === undefined) throw new UsageError(ONE_OF);
  return structure.expression;
}
