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

/** What scripts/software-gpu.js brought to build/; its description says where the driver lies. */
function brought(name: string, description: string): SoftwareGpu {
  const folder = join(build, name.toLowerCase());
  const driver = join(folder, description);
  const libraries = [folder, process.env.LD_LIBRARY_PATH].filter((path) => path !== undefined);
  return {
    name,
    missing: hasPackage && existsSync(driver) ? undefined : 'node scripts/software-gpu.js has brought none',
    environment: {
      VK_DRIVER_FILES: driver,
      VK_ICD_FILENAMES: driver,
      LD_LIBRARY_PATH: libraries.join(delimiter),
    },
  };
}

function lavapipe(): SoftwareGpu {
  const gpu = brought('lavapipe', 'lvp_icd.json');
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

const known: readonly SoftwareGpu[] =
  process.env.VK_DRIVER_FILES === undefined
    ? [brought('SwiftShader', 'vk_swiftshader_icd.json'), lavapipe()]
    : [given()];
const present = known.filter(({ missing }) => missing === undefined);

/**
 * Those that there are, the slowest first. A driver that VK_DRIVER_FILES names already takes the place of all. Where there is
 * none, one that is missing: its tests are skipped, and say so.
 */
export const softwareGpus: readonly SoftwareGpu[] = present.length > 0 ? present : known.slice(-1);
