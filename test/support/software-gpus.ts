// GPUs played by the processor, so that what runs on GPUs is tested everywhere. A driver wants its environment from the
// start of a process: vitest.config.ts starts the processes of test/gpu once for each.

import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';

type Environment = Readonly<Record<string, string>>;

export interface SoftwareGpu {
  readonly name: string;
  /** Why there is none; undefined where there is one. */
  readonly missing: string | undefined;
  readonly environment: Environment;
}

const build = fileURLToPath(new URL('../../build', import.meta.url));
const hasPackage = existsSync(join(build, 'webgpu/node_modules/webgpu/index.js'));

/** Bits of lavapipe's vectors; a subgroup is a vector. Half of what most processors have: kernels compile thrice as fast. */
const vectorBits = process.env.LP_NATIVE_VECTOR_WIDTH ?? '128';
/** Without LLVM's optimizations: most kernels run for less time than those take. Floats are summed as they are written, with or without. */
const compiling = process.env.GALLIVM_PERF ?? 'nopt';

/** What a script brought to build/; its description says where the driver lies. */
function broughtBy(script: string, name: string, description: string): SoftwareGpu {
  const folder = join(build, name.toLowerCase());
  const driver = join(folder, description);
  const libraries = [folder, process.env.LD_LIBRARY_PATH].filter((path) => path !== undefined);
  return {
    name,
    missing:
      hasPackage && existsSync(driver) ? undefined : `${name} is not in build/; node ${script} brings it`,
    environment: {
      VK_DRIVER_FILES: driver,
      VK_ICD_FILENAMES: driver,
      LD_LIBRARY_PATH: libraries.join(delimiter),
    },
  };
}

function lavapipe(): SoftwareGpu {
  const gpu = broughtBy('scripts/lavapipe.js', 'lavapipe', 'lvp_icd.json');
  return {
    ...gpu,
    environment: {
      ...gpu.environment,
      LP_NATIVE_VECTOR_WIDTH: vectorBits,
      GALLIVM_PERF: compiling,
      // Many processes run the same kernels. The cache does not tell apart how they were compiled.
      MESA_SHADER_CACHE_DIR: join(build, 'lavapipe', `kernels-${vectorBits}-${compiling}`),
    },
  };
}

function given(): SoftwareGpu {
  const missing = hasPackage ? undefined : 'the package webgpu is not in build/';
  const own = Object.entries(process.env).filter(([key]) => /^(VK|LD|LP|MESA)_/.test(key));
  return { name: 'the GPU of VK_DRIVER_FILES', missing, environment: Object.fromEntries(own) as Environment };
}

/** The slowest first. A driver that VK_DRIVER_FILES names already takes the place of all. */
export const softwareGpus: readonly SoftwareGpu[] =
  process.env.VK_DRIVER_FILES === undefined
    ? [broughtBy('scripts/software-gpu.js', 'SwiftShader', 'vk_swiftshader_icd.json'), lavapipe()]
    : [given()];
