"""Write requirements.txt, the lock file of an installation of the interop suite.

usage: python3.11 test/interop/lock.py [FOLDER...]    (make interop-lock)

A folder has a requirements.in; without one it is that of this script.

pip resolves what requirements.in asks for; its index then lists the hashes of
every wheel of each release that the suite can use, so that one lock serves
every Python that it runs with. Run it with the oldest of them: what supports
that one supports the later ones. The index is pip's own, by its settings; no
name of one is written down.
"""

import json
import pathlib
import re
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


def resolve(python, report, *asked):
    """What pip would install, by canonical name: version, file, digest, and what it requires."""
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--dry-run",
                    "--ignore-installed", "--only-binary", ":all:", "--report", report, *asked], check=True)
    chosen = {}
    for item in json.loads(pathlib.Path(report).read_text())["install"]:
        filename = item["download_info"]["url"].rpartition("/")[2]
        digest = item["download_info"]["archive_info"]["hashes"]["sha256"]
        chosen[canonical(item["metadata"]["name"])] = (item["metadata"]["version"], filename, digest,
                                                       item["metadata"].get("requires_dist", []))
    return chosen


def published(required):
    """What a package requires, without what only its vendor's own index has: a local
    version such as 2.13.0+cpu is asked for as 2.13.0, and what is built for that local
    version alone (torchaudio and its like, which the suite does not use) is left out."""
    local = {re.match(r"[\w.-]+", r)[0] for r in required if re.search(r"==[^;,]*\+", r)}
    for r in required:
        name = re.match(r"[\w.-]+", r)[0]
        if "extra ==" in r or name not in local and any(name.startswith(each) for each in local):
            continue
        yield re.sub(r"(==[^;,+]*)\+[\w.]+", r"\1", r)


def lock(folder):
    with tempfile.TemporaryDirectory(prefix="interop-lock-") as tmp:
        venv.create(tmp, with_pip=True)
        python, report = f"{tmp}/bin/python", f"{tmp}/report.json"
        chosen, asked = {}, []
        for name, item in resolve(python, report, "--no-deps", "-r", folder / "requirements.in").items():
            if any("+" in r.partition(";")[0] for r in item[3]):
                chosen[name] = item
                asked += published(item[3])
        if chosen:
            whole = pathlib.Path(tmp) / "requirements.in"
            kept = [line for line in (folder / "requirements.in").read_text().splitlines()
                    if canonical(line.partition("==")[0]) not in chosen]
            whole.write_text("\n".join(kept + asked) + "\n")
            chosen |= resolve(python, report, "-r", whole)
        else:
            chosen = resolve(python, report, "-r", folder / "requirements.in")
        names = sorted(chosen)
        answer = subprocess.run([python, "-c", HASHES], input=json.dumps(names), text=True, capture_output=True)
        if answer.returncode != 0:
            sys.exit(f"asking for hashes: {answer.stderr}")
    out = ["# Written by lock.py from requirements.in; do not edit.\n"]
    for name, line in zip(names, answer.stdout.splitlines(), strict=True):
        version, filename, digest, _ = chosen[name]
        hashes = {sha for file, sha in json.loads(line) if wanted(file, name, version)}
        if digest not in hashes:
            sys.exit(f"{name} {version}: the index does not list {filename}, which pip chose")
        out.append(f"{name}=={version}" + "".join(f" \\\n    --hash=sha256:{sha}" for sha in sorted(hashes)) + "\n")
    (folder / "requirements.txt").write_text("".join(out))
    print(f"{len(names)} packages locked by Python {sys.version_info[0]}.{sys.version_info[1]}")


for folder in sys.argv[1:] or [HERE]:
    lock(pathlib.Path(folder))
