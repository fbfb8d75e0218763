import { describe, expect, it } from 'vitest';
import { chooseFiles } from './choose-files.ts';
import { PullError, parseReference, referenceIn } from './model-reference.ts';
import { wellKnownNames, withShortNames } from './short-names.ts';

const listed = (...paths: readonly string[]) =>
  paths.map((path, index) => ({ path, sizeBytes: 1000 + index }));
const chosen = (paths: readonly string[], wanted?: string) =>
  chooseFiles(listed(...paths), wanted).map(({ path }) => path);

function refusalOf(work: () => unknown): PullError {
  try {
    work();
  } catch (error) {
    if (error instanceof PullError) return error;
    throw error;
  }
  throw new Error('nothing was refused');
}

const many = [
  'README.md',
  'm-Q4_K_M.gguf',
  'm-Q4_K_S.gguf',
  'm-UD-Q4_K_XL.gguf',
  'BF16/m-BF16-00001-of-00002.gguf',
  'BF16/m-BF16-00002-of-00002.gguf',
  'mmproj-m-f16.gguf',
];

const projector = 'mmproj-m-f16.gguf';

describe('choosing a GGUF', () => {
  it.each([
    ['m-Q4_K_M.gguf', ['m-Q4_K_M.gguf', projector]],
    ['m-Q4_K_M', ['m-Q4_K_M.gguf', projector]],
    ['Q4_K_M', ['m-Q4_K_M.gguf', projector]],
    ['q4_k_s', ['m-Q4_K_S.gguf', projector]],
    ['UD-Q4_K_XL', ['m-UD-Q4_K_XL.gguf', projector]],
    ['BF16', [...many.slice(4, 6), projector]],
    ['m-BF16-00001-of-00002.gguf', [...many.slice(4, 6), projector]],
    ['BF16/m-BF16.gguf', [...many.slice(4, 6), projector]],
  ])('takes %s by its name or tag, with all parts and what it reads images by', (wanted, files) => {
    expect(chosen(many, wanted)).toEqual(files);
  });

  it('takes the only one without being told, whatever else is there', () => {
    expect(chosen(['README.md', 'a.gguf', 'mmproj-a.gguf', 'config.json'])).toEqual([
      'a.gguf',
      'mmproj-a.gguf',
    ]);
  });

  it('takes Q4_K_M of several where none is named, as Ollama and llama.cpp do', () => {
    expect(chosen(many)).toEqual(['m-Q4_K_M.gguf', projector]);
    expect(refusalOf(() => chosen(['a-Q4_K_M.gguf', 'b-Q4_K_M.gguf'])).choices).toHaveLength(2);
  });

  it('lists them with their sizes where none is usual, split ones as a whole', () => {
    const refusal = refusalOf(() => chosen(many.map((path) => path.replace('Q4_K_M', 'Q5_K_M'))));
    expect(refusal.message).toContain('several GGUF models; name one');
    expect(refusal.choices).toEqual([
      { path: 'm-Q5_K_M.gguf', sizeBytes: 1001 },
      { path: 'm-Q4_K_S.gguf', sizeBytes: 1002 },
      { path: 'm-UD-Q4_K_XL.gguf', sizeBytes: 1003 },
      { path: 'BF16/m-BF16.gguf', sizeBytes: 1004 + 1005 },
    ]);
  });

  it('lists those that a tag leaves open, and all where it fits none', () => {
    const open = refusalOf(() => chosen(['a-Q8_0.gguf', 'b-Q8_0.gguf', 'c.gguf'], 'q8_0'));
    expect(open.choices.map(({ path }) => path)).toEqual(['a-Q8_0.gguf', 'b-Q8_0.gguf']);
    const none = refusalOf(() => chosen(many, 'Q8_0'));
    expect(none.message).toContain("no GGUF 'Q8_0'");
    expect(none.choices.length).toBe(4);
    // A part of a tag is none.
    expect(refusalOf(() => chosen(many, 'K_M')).message).toContain("no GGUF 'K_M'");
  });

  it('refuses a split one of which a part is missing', () => {
    const paths = ['a-00001-of-00003.gguf', 'a-00003-of-00003.gguf'];
    expect(refusalOf(() => chosen(paths)).message).toContain('2 of the 3 parts');
    expect(chosen([...paths, 'b.gguf'], 'b')).toEqual(['b.gguf']);
  });
});

describe('choosing safetensors', () => {
  it('takes all shards with index, tokenizer and template, the small files first', () => {
    const files = [
      { path: 'model-00002-of-00002.safetensors', sizeBytes: 900 },
      { path: 'model-00001-of-00002.safetensors', sizeBytes: 800 },
      { path: 'consolidated.safetensors', sizeBytes: 1700 },
      { path: 'model.safetensors.index.json', sizeBytes: 50 },
      { path: 'tokenizer.json', sizeBytes: 40 },
      { path: 'config.json', sizeBytes: 10 },
      { path: 'chat_template.jinja', sizeBytes: 5 },
      { path: 'original/model.safetensors', sizeBytes: 1700 },
      { path: 'model.gguf', sizeBytes: 1700 },
    ];
    expect(chooseFiles(files, undefined).map(({ path }) => path)).toEqual([
      'chat_template.jinja',
      'config.json',
      'tokenizer.json',
      'model.safetensors.index.json',
      'model-00001-of-00002.safetensors',
      'model-00002-of-00002.safetensors',
    ]);
  });

  it('takes along how an embedding model pools', () => {
    const dense = ['2_Dense/config.json', '2_Dense/model.safetensors'];
    const pooling = ['modules.json', '1_Pooling/config.json', ...dense];
    const files = ['model.safetensors', 'config.json', ...pooling, '2_Dense/pytorch_model.bin'];
    expect(chosen(files)).toEqual(expect.arrayContaining([...pooling, 'model.safetensors']));
    expect(chosen(files)).not.toContain('2_Dense/pytorch_model.bin');
    expect(chosen(files.filter((path) => path !== 'modules.json'))).not.toContain('1_Pooling/config.json');
  });

  it('takes the weights once where one file and shards are both there', () => {
    const paths = [
      'config.json',
      'model-00001-of-00001.safetensors',
      'model.safetensors',
      'model.safetensors.index.json',
    ];
    expect(chosen(paths)).toEqual(['config.json', 'model.safetensors']);
  });

  it('refuses repositories without either format, and a name where there is no GGUF', () => {
    expect(refusalOf(() => chosen(['config.json', 'pytorch_model.bin'])).message).toContain(
      'no model in GGUF',
    );
    expect(refusalOf(() => chosen(['config.json', 'model.safetensors'], 'Q4_0')).message).toContain(
      'no GGUF',
    );
  });
});

describe('file names', () => {
  it.each([
    '../a.gguf',
    'a/../../b.gguf',
    '/etc/a.gguf',
    'a\\b.gguf',
    'C:a.gguf',
    'a\0.gguf',
    './a.gguf',
    'a//b.gguf',
  ])('refuses %j', (path) => {
    expect(refusalOf(() => chosen([path])).message).toContain('unsafe name');
  });
});

describe('a reference', () => {
  it('is read with and without its prefix', () => {
    expect(parseReference('hf:ann/m-GGUF:Q4_K_M')).toEqual({ owner: 'ann', repo: 'm-GGUF', file: 'Q4_K_M' });
    expect(parseReference('ann/m.1')).toEqual({ owner: 'ann', repo: 'm.1' });
    expect(parseReference('ann/m:sub/m-Q8_0.gguf')).toMatchObject({ file: 'sub/m-Q8_0.gguf' });
  });

  it.each([
    'hf:ann/m-GGUF:Q4_K_M',
    'hf://ann/m-GGUF:Q4_K_M',
    'hf.co/ann/m-GGUF:Q4_K_M',
    'huggingface.co/ann/m-GGUF:Q4_K_M',
    'https://huggingface.co/ann/m-GGUF:Q4_K_M',
    'ann/m-GGUF:Q4_K_M',
  ])('is the same as %s', (text) => {
    expect(parseReference(text)).toEqual({ owner: 'ann', repo: 'm-GGUF', file: 'Q4_K_M' });
  });

  it.each([
    ['https://huggingface.co/ann/m', undefined],
    ['https://huggingface.co/ann/m/', undefined],
    ['https://huggingface.co/ann/m/tree/main', undefined],
    ['https://huggingface.co/ann/m/blob/main/m-Q8_0.gguf', 'm-Q8_0.gguf'],
    ['https://huggingface.co/ann/m/resolve/main/sub/m-Q8_0.gguf?download=true', 'sub/m-Q8_0.gguf'],
    ['hf.co/ann/m:latest', undefined],
  ])('is read from the address %s', (text, file) => {
    expect(parseReference(text)).toEqual({ owner: 'ann', repo: 'm', ...(file && { file }) });
  });

  it('has short names, with the tag that Ollama adds, in any case, and those of the settings first', () => {
    const known = { owner: 'bartowski', repo: 'Llama-3.2-1B-Instruct-GGUF', file: 'Q4_K_M' };
    for (const text of ['llama3.2:1b', 'Llama3.2:1B']) expect(parseReference(text)).toEqual(known);
    expect(parseReference('llama3.2:latest')).toEqual(parseReference('llama3.2:3b'));
    const own = withShortNames(['llama3.2:1b=ann/mine:Q8_0', 'tiny=hf.co/ann/tiny']);
    expect(parseReference('llama3.2:1b', own)).toEqual({ owner: 'ann', repo: 'mine', file: 'Q8_0' });
    expect(parseReference('tiny', own)).toEqual({ owner: 'ann', repo: 'tiny' });
    for (const bad of ['tiny', '=ann/tiny', 'a/b=ann/tiny', 'tiny='])
      expect(() => withShortNames([bad])).toThrow('give name=owner/repo');
  });

  it('is what every known short name stands for', () => {
    for (const long of wellKnownNames.values()) expect(referenceIn(long, new Map())).toBeDefined();
  });

  it.each([
    'm',
    'hf:m',
    '../m',
    'hf:../m',
    'ann/..',
    'ann/m/x',
    'ann/m:',
    'https://hub/ann/m',
    '',
    'ann/m?x',
  ])('is not %j', (text) => {
    expect(() => parseReference(text)).toThrow('write hf:owner/repo');
  });

  it('needs its prefix where it could be a path on this machine', () => {
    expect(() => parseReference('src/pool')).toThrow('write hf:src/pool');
    expect(parseReference('hf:src/pool')).toEqual({ owner: 'src', repo: 'pool' });
  });
});
