// Families that have known results of transformers, as folders and as GGUF files.

interface GoldenFiles {
  readonly family: string;
  /** Of the family's folder: a GGUF, with its projector beside it; absent: the folder. */
  readonly gguf?: true;
  /** The only cases that these files can give. */
  readonly only?: readonly string[];
  /** The converter has made another text model of it: only pixels and features are the same. */
  readonly otherText?: true;
  /** Default 2e-4. */
  readonly tolerance?: number;
}

export const goldenFiles: readonly GoldenFiles[] = [
  { family: 'qwen2_5_vl' },
  // Its projector file does not say how large windows are: 112 pixels in all that are published, but 56 here.
  { family: 'qwen2_5_vl', gguf: true, only: ['one pixel', 'text only'] },
  { family: 'qwen3_vl' },
  { family: 'qwen3_vl', gguf: true },
  { family: 'qwen3_vl_moe' },
  { family: 'qwen3_vl_moe', gguf: true },
  { family: 'qwen3_5' },
  { family: 'qwen3_5', gguf: true },
  { family: 'gemma3' },
  // With a tokenizer of another kind, and without a word on which of its three layers see all tokens; its projection has 16 bits.
  { family: 'gemma3', gguf: true, otherText: true, tolerance: 2e-3 },
  { family: 'smolvlm' },
  { family: 'smolvlm', gguf: true },
  { family: 'idefics3' },
  { family: 'llava' },
  { family: 'pixtral' },
  { family: 'pixtral', gguf: true },
  { family: 'mistral3' },
  { family: 'mistral3', gguf: true },
  { family: 'internvl' },
  { family: 'lfm2_vl' },
  { family: 'lfm2_vl', gguf: true },
  { family: 'glm4v' },
  { family: 'glm4v', gguf: true },
  { family: 'gemma4' },
  { family: 'gemma4', gguf: true },
  { family: 'llama4' },
  { family: 'llava_onevision' },
  { family: 'paligemma' },
];
