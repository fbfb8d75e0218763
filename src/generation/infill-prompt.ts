// The prompt of a gap: what stands before it and behind it, each behind the token that says so, and other files of the
// same project ahead of them. Texts are never read as control tokens.

import type { EncodeOptions } from '../text/tokenizer.ts';
import { checkText, type TextLimits } from './chat-prompt.ts';
import { checkTextFits } from './context-room.ts';
import { invalid } from './generation-error.ts';
import type { PromptModel } from './prompt.ts';

export interface Gap {
  readonly prefix: string;
  readonly suffix: string;
  /** How the answer begins already. Default empty. */
  readonly begun?: string | undefined;
  /** Other files that may help. Default none. */
  readonly files?: readonly ProjectFile[] | undefined;
  /** What the asker calls the suffix. */
  readonly suffixName: string;
}

interface ProjectFile {
  readonly filename?: string | undefined;
  readonly text: string;
}

export type Encode = (text: string, options: EncodeOptions) => Promise<Int32Array>;

export async function infillPrompt(
  { prefix, suffix, begun = '', files = [], suffixName }: Gap,
  model: PromptModel,
  encode: Encode,
  parameter: string,
  limits: TextLimits | undefined,
): Promise<Int32Array> {
  const { name, fillInMiddle: marks } = model;
  if (marks === undefined) {
    const problem = `the model '${name}' has no tokens for filling in the middle; it continues a prompt alone`;
    throw invalid(suffixName, problem);
  }
  const whole = [prefix, suffix, begun, ...files.map(({ text }) => text)].join('');
  checkText(parameter, whole, limits);
  checkTextFits(whole, model, parameter);
  const ids: number[] = [];
  const add = async (mark: number | undefined, text: string) => {
    if (mark !== undefined) ids.push(mark);
    if (text !== '') for (const id of await encode(text, { special: false })) ids.push(id);
  };
  if (model.tokenizer.addBos && model.tokenizer.bosId !== undefined) ids.push(model.tokenizer.bosId);
  if (files.length > 0 && marks.repository !== undefined) await add(marks.repository, 'project\n');
  for (const { filename = 'file', text } of files) {
    await add(marks.file, marks.file === undefined ? `\n\n${text}` : `${filename}\n${text}`);
  }
  if (files.length > 0 && marks.file !== undefined) await add(marks.file, 'current\n');
  const parts = [() => add(marks.prefix, prefix), () => add(marks.suffix, suffix)];
  for (const part of marks.middle === undefined ? parts.reverse() : parts) await part();
  await add(marks.middle, begun);
  return Int32Array.from(ids);
}
