// Which projector file (mmproj) belongs to a GGUF: one folder may hold those of several models, and several of one.

import { readdirSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { isProjectorName } from './open-model.ts';

/** The most exact that costs no more than it gains comes first. */
const formats = ['f16', 'bf16', 'q8_0', 'f32'];

/** Undefined where there is none, or none by whose name it could be told. */
export function projectorFor(model: string): string | undefined {
  const directory = dirname(model);
  const name = projectorAmong(basename(model), readdirSync(directory));
  if (name !== undefined) return join(directory, name);
  // Parts of large models lie in folders of their own, as in their repository.
  const above = dirname(directory);
  const own = readdirSync(directory).map((one) => `${basename(directory)}/${one}`);
  const other = projectorAmong(`${basename(directory)}/${basename(model)}`, [...own, ...readdirSync(above)]);
  return other === undefined ? undefined : join(above, other);
}

/** The same of the files of a repository: it lies in the model's folder, or above. */
export function projectorAmong(model: string, files: readonly string[]): string | undefined {
  const folder = model.slice(0, model.lastIndexOf('/') + 1);
  const near = files.filter((path) => {
    const its = path.slice(0, path.lastIndexOf('/') + 1);
    return path.endsWith('.gguf') && path !== model && (its === folder || its === '');
  });
  const models = new Set([model, ...near].filter((path) => !isProjectorName(path)).map(plainName));
  const own = plainName(model);
  const fitting = near.filter(isProjectorName).filter((path) => {
    const said = plainName(path);
    // One that names no model belongs to the only one that is there.
    return said === '' ? models.size <= 1 : own.includes(said) || said.includes(own);
  });
  const rank = (path: string) => {
    const at = formats.findIndex((format) => new RegExp(`(^|[-_.])${format}[-_.]`, 'i').test(path));
    return at === -1 ? formats.length : at;
  };
  return fitting.sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1))[0];
}

/** Without what says how weights are stored, which part of a file it is, and that it is a projector. */
function plainName(file: string): string {
  return file
    .slice(file.lastIndexOf('/') + 1)
    .toLowerCase()
    .replace(/\.gguf$/, '')
    .replace(/-\d{5}-of-\d{5}$/, '')
    .replace(/mmproj|projector/g, '')
    .replace(/(^|[-_.])(ud[-_])?((b?f|fp)(16|32)|i?q\d\w*|mxfp4\w*|tq\d\w*)(?=$|[-_.])/g, '')
    .replace(/[^a-z0-9]/g, '')
    .replace(/^model$/, '');
}
