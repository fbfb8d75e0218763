import {
  linkSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { embeddedModelPath as shippedModelPath } from '../../test/support/embedded-model.ts';
import {
  ggufModel,
  safetensorsConfig,
  safetensorsWeights,
  splitGgufModel,
} from '../../test/support/model-files.ts';
import { hasTestdata, testdata } from '../../test/support/testdata.ts';
import { defaultModelFolder, embeddedModelPath } from './model-homes.ts';
import { findModels } from './model-registry.ts';

const root = mkdtempSync(join(tmpdir(), 'chairlift-registry-'));
afterAll(() => rmSync(root, { recursive: true }));
let folders = 0;

type Files = Readonly<Record<string, Uint8Array | string>>;

function folderOf(files: Files): string {
  const folder = join(root, `models-${folders++}`);
  mkdirSync(folder);
  for (const [name, bytes] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), bytes);
  }
  return folder;
}

const safetensors = (folder: string): Files => ({
  [`${folder}/config.json`]: safetensorsConfig,
  [`${folder}/model.safetensors`]: safetensorsWeights,
});

/** Names by path relative to the folder; what has a problem is marked. */
function namesIn(folder: string, paths: readonly string[] = []): Record<string, string> {
  return Object.fromEntries(
    findModels({ folder, paths }).map(({ name, path, problem }) => [
      path.replace(`${folder}/`, ''),
      problem === undefined ? name : `broken ${name}`,
    ]),
  );
}

describe('findModels in a folder', () => {
  it('calls a GGUF by its stem and a folder of safetensors by the folder', () => {
    const folder = folderOf({ 'small-q8_0.gguf': ggufModel, ...safetensors('tiny'), 'notes.txt': 'none' });
    utimesSync(join(folder, 'small-q8_0.gguf'), 1000, 2000);
    expect(findModels({ folder })).toEqual([
      {
        name: 'small-q8_0',
        path: join(folder, 'small-q8_0.gguf'),
        createdSeconds: 2000,
        sizeBytes: ggufModel.length,
        format: 'gguf',
      },
      {
        name: 'tiny',
        path: join(folder, 'tiny'),
        createdSeconds: Math.floor(statSync(join(folder, 'tiny/model.safetensors')).mtimeMs / 1000),
        sizeBytes: safetensorsWeights.length,
        format: 'safetensors',
      },
    ]);
  });

  it('lists a split GGUF once, with the size of all its parts, beside a whole one of the same stem', () => {
    const [first, second] = splitGgufModel as [Buffer, Buffer];
    const folder = folderOf({
      'big-00001-of-00002.gguf': first,
      'big-00002-of-00002.gguf': second,
      'big.gguf': ggufModel,
    });
    expect(namesIn(folder)).toEqual({ 'big-00001-of-00002.gguf': 'big', 'big.gguf': 'big-2' });
    expect(findModels({ folder })[0]?.sizeBytes).toBe(first.length + second.length);
    // Whichever part is given, it is the same model.
    const given = findModels({ folder, paths: [join(folder, 'big-00002-of-00002.gguf')] });
    expect(given.map(({ name, path }) => [name, path])).toEqual([
      ['big', join(folder, 'big-00001-of-00002.gguf')],
      ['big-2', join(folder, 'big.gguf')],
    ]);
  });

  it('calls what was pulled by its repository, and by its file where there are several', () => {
    const folder = folderOf({
      'ann/one-GGUF/one-Q8_0.gguf': ggufModel,
      'ann/two-GGUF/two-Q4_0.gguf': ggufModel,
      'ann/two-GGUF/Q8_0/two-Q8_0-00001-of-00002.gguf': splitGgufModel[0] as Buffer,
      'ann/two-GGUF/Q8_0/two-Q8_0-00002-of-00002.gguf': splitGgufModel[1] as Buffer,
      'ann/two-GGUF/mmproj-two-f16.gguf': ggufModel,
      ...safetensors('bob/three'),
      'bob/three/three-f32.gguf': ggufModel,
    });
    expect(namesIn(folder)).toEqual({
      'ann/one-GGUF/one-Q8_0.gguf': 'one-GGUF',
      'ann/two-GGUF/two-Q4_0.gguf': 'two-GGUF:two-Q4_0',
      'ann/two-GGUF/Q8_0/two-Q8_0-00001-of-00002.gguf': 'two-GGUF:two-Q8_0',
      'bob/three': 'three',
      'bob/three/three-f32.gguf': 'three:three-f32',
    });
  });

  it('gives a short name that two models would share to neither, so that none takes over the other', () => {
    const folder = folderOf({
      'same.gguf': ggufModel,
      'ann/same/x.gguf': ggufModel,
      ...safetensors('bob/same'),
      'ann/lone/x.gguf': ggufModel,
    });
    expect(namesIn(folder)).toEqual({
      'same.gguf': 'same',
      'ann/same/x.gguf': 'ann/same',
      'bob/same': 'bob/same',
      'ann/lone/x.gguf': 'lone',
    });
  });

  it('lists broken models with their problem beside the sound ones', () => {
    const folder = folderOf({
      'cut.gguf': ggufModel.subarray(0, 200),
      'empty.gguf': '',
      'lost-00001-of-00002.gguf': splitGgufModel[0] as Buffer,
      'pointer.gguf': 'version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n',
      'strange/config.json': '{"model_type": "mamba"}',
      'strange/model.safetensors': safetensorsWeights,
      'sound.gguf': ggufModel,
      'late.gguf.part': ggufModel,
      'config/config.json': safetensorsConfig,
      'config/model.safetensors.part': '',
    });
    symlinkSync('nowhere', join(folder, 'dangling.gguf'));
    const problems = Object.fromEntries(findModels({ folder }).map(({ name, problem }) => [name, problem]));
    expect(problems).toEqual({
      cut: expect.stringContaining('cut.gguf'),
      dangling: expect.stringContaining('does not exist'),
      empty: expect.stringContaining('empty.gguf'),
      late: expect.stringContaining('download has not ended'),
      lost: expect.stringContaining('lost-00002-of-00002.gguf'),
      pointer: expect.stringContaining('Git LFS pointer'),
      sound: undefined,
      config: expect.stringContaining('download has not ended'),
      strange: expect.stringContaining('"mamba" is not supported'),
    });
  });

  it('goes on serving a file while its newer version is being downloaded', () => {
    const folder = folderOf({ 'a.gguf': ggufModel, 'a.gguf.part': 'new' });
    expect(findModels({ folder })).toMatchObject([{ name: 'a', sizeBytes: ggufModel.length }]);
    expect(findModels({ folder })[0]).not.toHaveProperty('problem');
  });

  it('follows links, sees a model behind two of them once, and survives circles', () => {
    const folder = folderOf({ 'ann/repo/a.gguf': ggufModel });
    symlinkSync(join(folder, 'ann'), join(folder, 'zoe'));
    symlinkSync('..', join(folder, 'ann', 'up'));
    expect(Object.values(namesIn(folder))).toEqual(['repo']);
  });

  it('finds nothing in a folder that does not exist', () => {
    expect(findModels({ folder: join(root, 'nothing') })).toEqual([]);
  });
});

describe('findModels at given paths', () => {
  it('calls them after the file or the folder, or as the user says', () => {
    const folder = folderOf({ 'x/a.gguf': ggufModel, ...safetensors('tiny') });
    const paths = [
      `${folder}/x/a.gguf`,
      `${folder}/x`,
      `${folder}/tiny`,
      `${folder}/tiny/model.safetensors`,
      `mine=${folder}/x/a.gguf`,
    ];
    const tiny = `${basename(folder)}/tiny`;
    const names = findModels({ paths }).map(({ name, problem }) => problem ?? name);
    expect(names).toEqual(['a', 'x', tiny, `${tiny}-2`, 'mine']);
  });

  it('keeps the names of given paths before those of the folder, and lists nothing twice', () => {
    const folder = folderOf({
      'ann/repo/a.gguf': ggufModel,
      'ann/repo/b.gguf': ggufModel,
      'c.gguf': ggufModel,
    });
    const elsewhere = folderOf({ 'c.gguf': ggufModel, 'd.gguf': ggufModel });
    linkSync(join(elsewhere, 'd.gguf'), join(folder, 'd.gguf'));
    const paths = [`${elsewhere}/c.gguf`, `d=${elsewhere}/d.gguf`, `${folder}/ann/repo/a.gguf`];
    expect(findModels({ folder, paths: [...paths, ...paths] }).map(({ name }) => name)).toEqual([
      'c',
      'd',
      'a',
      'c-2',
      'd-2',
      'repo:b',
    ]);
  });

  it('lets the names of last paths give way', () => {
    const folder = folderOf({ 'ann/demo/x.gguf': ggufModel });
    const elsewhere = folderOf({ 'demo.gguf': ggufModel });
    const lastPaths = [`${elsewhere}/demo.gguf`, `${folder}/ann/demo/x.gguf`];
    const names = findModels({ folder, lastPaths }).map(({ name }) => name);
    expect(names).toEqual(['demo', `${basename(elsewhere)}/demo`]);
  });

  it('takes a file whose name has an equals sign for a path', () => {
    const folder = folderOf({ 'a=b.gguf': ggufModel });
    expect(findModels({ paths: [`${folder}/a=b.gguf`] })).toMatchObject([{ name: 'a=b' }]);
  });

  it('lists a path that is not there with its problem', () => {
    const [model] = findModels({ paths: [join(root, 'absent.gguf')] });
    expect(model).toMatchObject({
      name: 'absent',
      sizeBytes: 0,
      problem: expect.stringContaining('not exist'),
    });
  });

  it('refuses one name for two paths, and a name that is none', () => {
    expect(() => findModels({ paths: ['m=/a.gguf', 'm=/b.gguf'] })).toThrow(
      "/b.gguf: name: 'm' is also the name of /a.gguf. Give each model its own name.",
    );
    expect(() => findModels({ paths: ['my model=/a.gguf'] })).toThrow('neither a file nor name=path');
    expect(() => findModels({ paths: ['m='] })).toThrow('neither a file nor name=path');
  });

  it('finds the model that comes with the package', () => {
    expect(embeddedModelPath()).toBe(shippedModelPath);
    expect(findModels({ paths: [embeddedModelPath()] })).toMatchObject([
      { name: 'chairlift-demo-14m-q8_0', format: 'gguf', sizeBytes: statSync(shippedModelPath).size },
    ]);
  });

  it('has its default folder under the home directory', () => {
    expect(defaultModelFolder('/home/ann')).toBe(join('/home/ann', '.chairlift', 'models'));
  });

  it.skipIf(!hasTestdata)('tells MLX from plain safetensors (needs the shared test data)', () => {
    const paths = ['tinystories-656k', 'tinystories-656k-bf16-sharded', 'tinystories-656k-mlx-4bit'];
    expect(findModels({ paths: paths.map((name) => testdata(name)) })).toMatchObject([
      { name: paths[0], format: 'safetensors' },
      { name: paths[1], format: 'safetensors' },
      { name: paths[2], format: 'mlx' },
    ]);
  });
});
