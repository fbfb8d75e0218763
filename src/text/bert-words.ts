// Text as BERT's tokenizers see it: cleaned, folded, and cut into words and single marks of punctuation.

import { splitBy, splitInTurn, type TextSplitter } from './text-splitter.ts';

interface BertFolding {
  /** Control characters go, whitespace becomes spaces. */
  readonly cleans: boolean;
  /** Each CJK ideograph is a word. */
  readonly partsIdeographs: boolean;
  readonly stripsAccents: boolean;
  readonly lowercases: boolean;
}

const controls = /[\0\ufffd]|(?![\t\n\r])[\p{Cc}\p{Cf}\p{Co}]/gu;
const whitespace = /\p{White_Space}/gu;
/** Blocks of them, as the first BERT had them. */
const ideographs =
  /[\u4e00-\u9fff\u3400-\u4dbf\u{20000}-\u{2a6df}\u{2a700}-\u{2b73f}\u{2b740}-\u{2b81f}\u{2b920}-\u{2ceaf}\uf900-\ufaff\u{2f800}-\u{2fa1f}]/gu;

/** Of punctuation, and of what ASCII has beside it. */
export const punctuation = /[\p{P}$+<=>^`|~]/gu;

export function bertFolder(folding: BertFolding): (text: string) => string {
  const { cleans, partsIdeographs, stripsAccents, lowercases } = folding;
  const steps: ((text: string) => string)[] = [];
  if (cleans) steps.push((text) => text.replace(controls, '').replace(whitespace, ' '));
  if (partsIdeographs) steps.push((text) => text.replace(ideographs, ' $& '));
  if (stripsAccents) steps.push((text) => text.normalize('NFD').replace(/\p{Mn}/gu, ''));
  // Each by itself: a sigma at the end of a word is like any other.
  if (lowercases) steps.push((text) => text.replace(/\p{CWL}/gu, (one) => one.toLowerCase()));
  return (text) => steps.reduce((result, step) => step(result), text);
}

export const bertWords: TextSplitter = splitInTurn([
  splitBy(whitespace, 'Removed'),
  splitBy(punctuation, 'Isolated'),
]);
