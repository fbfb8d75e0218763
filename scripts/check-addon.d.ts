// See check-addon.js.

import type { AddonFile } from './addon-file.js';
import type { PrebuiltTarget } from './cross-compiler.js';

/** What is wrong with an addon for this target; nothing where it is right. */
export function addonFaults(addon: AddonFile, target: PrebuiltTarget): string[];
/** One line of what it is. */
export function describeAddon(addon: AddonFile): string;
/** Throws where the file is not what the package promises; else the line. */
export function checkAddonFile(path: string, target: PrebuiltTarget): string;
