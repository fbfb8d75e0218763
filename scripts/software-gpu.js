// For tests: the package webgpu, and a GPU that the processor plays. Lavapipe runs a step ten times as fast as SwiftShader,
// which is brought where lavapipe cannot be had, or with --all. x64 Linux alone. VK_DRIVER_FILES takes the place of both.

import { installGpuPackage } from './gpu-package.js';
import { bringLavapipe } from './lavapipe.js';
import { Progress } from './progress.js';
import { bringSwiftShader } from './swiftshader.js';

const progress = new Progress('chairlift tests');
const log = (line) => progress.log(line);

/** Whether it is there now; the reason is logged where it is not. */
function has(name, bring) {
  try {
    bring(log);
    return true;
  } catch (error) {
    log(`no ${name}: ${error instanceof Error ? error.message : error}`);
    return false;
  }
}

async function main() {
  if (process.platform !== 'linux' || process.arch !== 'x64') return;
  if (!(await installGpuPackage(progress)) || process.env.VK_DRIVER_FILES !== undefined) return;
  const hasLavapipe = has('lavapipe', bringLavapipe);
  if (hasLavapipe && !process.argv.includes('--all')) return;
  if (!has('SwiftShader', bringSwiftShader) && !hasLavapipe)
    log('no software GPU: tests of the GPU are skipped');
}

await main();
