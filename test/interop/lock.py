"""Write requirements.txt, the lock file of the interop suite.

usage: python3.11 test/interop/lock.py    (make interop-lock)

pip resolves what requirements.in asks for; its index then tells the hashes of
every wheel of each release that the suite can use, so that one lock serves
every Python that it runs with. Run it with the oldest of them: what supports
that one supports the later ones. The index is pip's own, by its settings; no
name of one is written down.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import venv

HERE = pathlib.Path(__file__).parent
PYTHONS = ("cp311", "cp312", "cp313")

# Runs in the venv, whose pip knows the index and how to reach it.
HASHES = """
import json, sys
from pip._internal.commands import create_command
from pip._internal.index.collector import LinkCollector, parse_links
from pip._internal.models.link import Link
command = create_command("download")
options, _ = command.parse_args([])
with command.main_context():
    collector = LinkCollector.create(command._build_session(options), options=options)
    for name in json.load(sys.stdin):
        page = collector.fetch_response(Link(f"{options.index_url.rstrip('/')}/{name}/"))
        files = [[link.filename, link.hash] for link in parse_links(page)
                 if link.hash_name == "sha256" and not link.is_yanked]
        print(json.dumps(files), flush=True)
"""


def canonical(name):
    return "-".join(part for part in name.lower().replace("_", "-").replace(".", "-").split("-") if part)


def wanted(filename, name, version):
    """Whether a file is a wheel of that release that the suite can use: Dynamo's
    runtime is there for Linux alone, and AIPerf for the Pythons below."""
    if not filename.endswith(".whl"):
        return False
    project, release, *build, python, abi, platform = filename.removesuffix(".whl").split("-")
    runs = abi in ("none", "abi3") or any(tag in PYTHONS for tag in python.split("."))
    there = platform == "any" or "manylinux" in platform and platform.endswith(("x86_64", "aarch64"))
    return canonical(project) == name and release == version and runs and there


def main():
    with tempfile.TemporaryDirectory(prefix="interop-lock-") as tmp:
        venv.create(tmp, with_pip=True)
        python = f"{tmp}/bin/python"
        report = f"{tmp}/report.json"
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--only-binary", ":all:",
                        "--report", report,
                        "-r", HERE / "requirements.in"], check=True)
        chosen = {}
        for item in json.loads(pathlib.Path(report).read_text())["install"]:
            filename = item["download_info"]["url"].rpartition("/")[2]
            digest = item["download_info"]["archive_info"]["hashes"]["sha256"]
            chosen[canonical(item["metadata"]["name"])] = (item["metadata"]["version"], filename, digest)
        names = sorted(chosen)
        asked = subprocess.run([python, "-c", HASHES], input=json.dumps(names), text=True, capture_output=True)
        if asked.returncode != 0:
            sys.exit(f"asking for hashes: {asked.stderr}")
    out = ["# Written by lock.py from requirements.in; do not edit.\n"]
    for name, line in zip(names, asked.stdout.splitlines(), strict=True):
        version, filename, digest = chosen[name]
        hashes = {sha for file, sha in json.loads(line) if wanted(file, name, version)}
        if digest not in hashes:
            sys.exit(f"{name} {version}: the index does not list {filename}, which pip chose")
        out.append(f"{name}=={version}" + "".join(f" \\\n    --hash=sha256:{sha}" for sha in sorted(hashes)) + "\n")
    (HERE / "requirements.txt").write_text("".join(out))
    print(f"{len(names)} packages locked by Python {sys.version_info[0]}.{sys.version_info[1]}")


main()
