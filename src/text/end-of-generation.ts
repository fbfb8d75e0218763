// Which tokens end a generation. Files often declare one of several: a chat model stops at the end of a turn
// as well as at the end of a text, so tokens whose names say so count too.

/** Names no plain text spells by accident. */
const turnEnds: readonly string[] = [
  '<|eot_id|>',
  '<|im_end|>',
  '<|end|>',
  '<|return|>',
  '<|call|>',
  '<|eom_id|>',
  '<|endoftext|>',
  '<|end_of_text|>',
  '<end_of_turn>',
  '<end_of_utterance>',
  '<｜end▁of▁sentence｜>',
];

/** Names that count only where the file marks the token as more than text. */
const markedEnds: readonly string[] = ['</s>', '<eos>', '<EOT>', '[EOT]', '[EOS]'];

interface NamedTokens {
  readonly idOf: (name: string) => number | undefined;
  /** Whether the file marks the token as a control or added token. */
  readonly isMarked: (id: number) => boolean;
}

/** The ids whose names say that a generation ends there, beside those a file declares. */
export function turnEndIds({ idOf, isMarked }: NamedTokens): Set<number> {
  const ids = new Set<number>();
  for (const name of [...turnEnds, ...markedEnds]) {
    const id = idOf(name);
    if (id !== undefined && (turnEnds.includes(name) || isMarked(id))) ids.add(id);
  }
  // Where `<|return|>` and `<|call|>` end a turn, `<|end|>` only ends one of its messages.
  const end = idOf('<|end|>');
  if (end !== undefined && idOf('<|return|>') !== undefined && idOf('<|call|>') !== undefined)
    ids.delete(end);
  return ids;
}
