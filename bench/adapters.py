"""What do the WebGPU adapters of this machine round?  The table of docs/webgpu.md for those that are here.

Chromium's SwiftShader is one with VK_ICD_FILENAMES=/usr/lib/chromium/vk_swiftshader_icd.json before the command.
"""

from tinyphysics.context import WEBGPU_ADAPTER
from tinyphysics.device.webgpu import driver
from tinyphysics.device.webgpu.probe import OWN, WORDS
from tinyphysics.errors import BackendError
from tinyphysics.runtime.engines.webgpu import probed


def main() -> None:
    print("| adapter | its own | wrong | with subnormal numbers | claim |\n|---|---|---|---|---|")
    for k, a in enumerate(driver.adapters()):
        with WEBGPU_ADAPTER(k):
            try:
                p = probed()
            except BackendError as error:
                print(f"| {a} | {error.what} | | | |")
                continue
        right = " ".join(WORDS[r] for r in OWN if not p.wrong[r])
        wrong = ", ".join(f"{WORDS[r]} {p.wrong[r]:,}" for r in OWN if p.wrong[r])
        small = ", ".join(f"{WORDS[r]} {p.subnormal[r]:,}" for r in OWN if p.subnormal[r])
        print(f"| {a} | {right} | {wrong} | {small} | {'bits' if p.claims_bits else p.why_not} |")


if __name__ == "__main__":
    main()
