#!/usr/bin/env python3
"""Several processes of the command as one job, by each launcher: the same global order for any number
of ranks, every record exactly once.

launchers_test.py RINGFEED: launchers that are not installed are skipped, and said so.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from collections import Counter

from job import LONGEST_RUN_S, Job, clean_environment, make_data, order_digest, with_checksum

BINARY = sys.argv[1]
RANKS = (1, 2, 3, 4, 5, 6)  # of which 5 does not divide the batch
BATCH = 24
ORDERS = {
    "none": ("--shuffle-mode", "none"),
    "window": ("--shuffle-mode", "window", "--shuffle", 300, "--seed", 3),
    "block": ("--shuffle-mode", "block", "--shuffle", 200, "--seed", 3),
    "stripes": ("--shuffle-mode", "stripes", "--shuffle", 100, "--seed", 3, "--stripe-bytes", 4096),
    "global": ("--shuffle-mode", "global", "--seed", 3, "--epoch", 2),
}


def torchrun(rank, ranks):
    return {"RANK": rank, "WORLD_SIZE": ranks, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": ranks}


def ray(rank, ranks):
    """Ray Train sets torch's variables, two workers a node here."""
    return {"RANK": rank, "WORLD_SIZE": ranks, "LOCAL_RANK": rank % 2,
            "LOCAL_WORLD_SIZE": min(2, ranks - rank // 2 * 2), "NODE_RANK": rank // 2,
            "RAY_JOB_ID": "01000000"}


def deepspeed(rank, ranks):
    return {"RANK": rank, "WORLD_SIZE": ranks, "LOCAL_RANK": rank, "LOCAL_SIZE": ranks,
            "CROSS_RANK": 0, "CROSS_SIZE": 1}


def by_hand(rank, ranks):
    """What init_method="env://" takes, and Kubeflow's PyTorchJob sets."""
    return {"RANK": rank, "WORLD_SIZE": ranks, "MASTER_ADDR": "localhost", "MASTER_PORT": 29500}


def slurm(rank, ranks):
    """Two tasks a node, the last node perhaps one."""
    nodes = [2] * (ranks // 2) + [1] * (ranks % 2)
    return {"SLURM_JOB_ID": 4711, "SLURM_STEP_ID": 0, "SLURM_PROCID": rank,
            "SLURM_STEP_NUM_TASKS": ranks, "SLURM_NTASKS": ranks, "SLURM_LOCALID": rank % 2,
            "SLURM_NODEID": rank // 2, "SLURM_STEP_TASKS_PER_NODE": ",".join(map(str, nodes))}


def hydra(rank, ranks):
    return {"PMI_RANK": rank, "PMI_SIZE": ranks, "MPI_LOCALRANKID": rank, "MPI_LOCALNRANKS": ranks}


def pmi_alone(rank, ranks):
    """As srun --mpi=pmi2 sets, beside its own, and Hydras that know nothing of the machine."""
    return {"PMI_RANK": rank, "PMI_SIZE": ranks}


def open_mpi(rank, ranks):
    return {"OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_SIZE": ranks,
            "OMPI_COMM_WORLD_LOCAL_RANK": rank, "OMPI_COMM_WORLD_LOCAL_SIZE": ranks}


#: How each names itself in the report.
PLAYED = {"torchrun": (torchrun, "torchrun"), "Ray": (ray, "torchrun"), "Slurm": (slurm, "Slurm"),
          "MPICH": (hydra, "MPICH"), "Open MPI": (open_mpi, "Open MPI"),
          "DeepSpeed": (deepspeed, "torchrun"), "by hand": (by_hand, "torchrun"),
          "PMI alone": (pmi_alone, "MPICH")}


class LaunchersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="ringfeed-processes-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.data = make_data(cls.folder)
        cls.singles = {}

    def single(self, data, order, *words):
        """What one process delivers: the sequence that every job has to have."""
        key = (data.paths[0], order, words)
        if key not in self.singles:
            job = self.job(data, order, f"single-{len(self.singles)}", *words)
            job.run(1)
            self.singles[key] = job.deliveries(1).sequence()
        return self.singles[key]

    def job(self, data, order, name, *words):
        return Job(BINARY, data, ("--batch", BATCH, *ORDERS[order], *words),
                   self.folder / self.id().rpartition(".")[2] / name)

    def assert_once(self, job, ranks, data, passes=1):
        report = job.audit([job.journal(rank) for rank in range(ranks)])
        self.assertEqual((report["missing"], report["repeated"], report["rolled_back"],
                          report["damaged"]), (0, 0, 0, 0))
        self.assertEqual(report["records"], data.total * passes)
        times = Counter(job.deliveries(ranks).records())
        self.assertEqual(times, Counter((turn, file, record) for turn in range(passes)
                                        for file, records in enumerate(data.records)
                                        for record in range(len(records))))

    def assert_payloads(self, job, data, reports):
        """Each process delivered what its journal says: the report's digest is of the bytes."""
        for rank, report in enumerate(reports):
            mine = job.deliveries(len(reports)).batches
            payloads = [data.payload(file, record) for number in sorted(mine)
                        for _, file, record in mine[number].get(rank, [])]
            self.assertEqual(report["records"], len(payloads))
            self.assertEqual(report["order_digest"], order_digest(payloads))

    def test_the_order_is_the_same_for_any_number_of_ranks(self):
        for order in ORDERS:
            for data in self.data:
                single = self.single(data, order)
                for ranks in RANKS:
                    with self.subTest(order=order, data=data.paths[0].name, ranks=ranks):
                        job = self.job(data, order, f"{order}-{data.paths[0].stem}-{ranks}")
                        reports = job.run(ranks)
                        self.assertEqual(job.deliveries(ranks).sequence(), single)
                        self.assert_payloads(job, data, reports)
                        self.assert_once(job, ranks, data)

    def test_passes_are_the_same_for_any_number_of_ranks(self):
        data = self.data[0]
        single = self.single(data, "global", "--passes", 3)
        first, second = ([records for number, records in single if records[0][0] == turn]
                         for turn in (0, 1))
        self.assertNotEqual([each[1:] for batch in first for each in batch],
                            [each[1:] for batch in second for each in batch])
        for ranks in (2, 6):
            job = self.job(data, "global", str(ranks), "--passes", 3)
            job.run(ranks)
            self.assertEqual(job.deliveries(ranks).sequence(), single)
            self.assert_once(job, ranks, data, passes=3)

    def test_a_dropped_rest_is_dropped_by_all_ranks(self):
        data = self.data[0]
        kept = [each for each in self.single(data, "window") if len(each[1]) == BATCH]
        for ranks in RANKS:
            job = self.job(data, "window", str(ranks), "--drop-remainder")
            reports = job.run(ranks)
            self.assertEqual(job.deliveries(ranks).sequence(), kept)
            self.assertEqual(len({report["batches"] for report in reports}), 1)
            report = job.audit([job.journal(rank) for rank in range(ranks)])
            self.assertEqual((report["missing"], report["repeated"]), (0, 0))

    def test_more_ranks_than_rows_of_a_batch_are_refused(self):
        job = self.job(self.data[0], "none", "refused")
        process = job.start(0, "--rank", 0, "--ranks", BATCH + 1)
        _, err = process.communicate(timeout=LONGEST_RUN_S)
        self.assertEqual(process.returncode, 2, err)
        self.assertIn(f"{BATCH + 1} ranks", err)

    def test_what_a_rank_did_not_deliver_is_missing_and_what_it_did_twice_repeated(self):
        """The audit is no yes-man: one batch's entry is taken out, then another batch is said to
        hold its records."""
        data = self.data[1]
        job = self.job(data, "global", "lost")
        job.run(3)
        journals = [job.journal(rank) for rank in range(3)]
        lines = journals[1].read_text().splitlines()
        share = BATCH // 3
        journals[1].write_text("".join(line + "\n" for line in lines[:7] + lines[8:]))
        report = job.audit(journals, status=1)
        self.assertEqual((report["missing"], report["repeated"]), (share, 0))
        fake = lines[7].split(" ", 2)[:2] + lines[8].split(" ", 2)[2:]
        lines[7] = with_checksum(" ".join(fake))
        journals[1].write_text("".join(line + "\n" for line in lines))
        report = job.audit(journals, status=1)
        self.assertEqual((report["missing"], report["repeated"]), (share, share))

    def test_a_journal_that_is_not_there_is_no_end(self):
        job = self.job(self.data[1], "global", "without")
        job.run(3)
        report = job.audit([job.journal(0), job.journal(2)])
        self.assertEqual((report["ended"], report["complete_batches"]), (False, 0))

    def test_the_environments_of_launchers(self):
        data = self.data[2]
        single = self.single(data, "global")
        for name, (variables, source) in PLAYED.items():
            for ranks in (2, 3):
                with self.subTest(name, ranks=ranks):
                    job = self.job(data, "global", f"{name}-{ranks}".replace(" ", "-"))
                    reports = job.run(ranks, words_of=lambda rank: (), environment_of=lambda rank: {
                        key: str(value) for key, value in variables(rank, ranks).items()})
                    self.assertEqual([(each["rank"], each["ranks"], each["ranks_source"])
                                      for each in reports],
                                     [(rank, ranks, source) for rank in range(ranks)])
                    self.assertEqual(job.deliveries(ranks).sequence(), single)
                    self.assert_once(job, ranks, data)

    def test_options_go_before_the_environment(self):
        data = self.data[2]
        job = self.job(data, "global", "options")
        variables = {key: str(value) for key, value in torchrun(1, 4).items()}
        (report,) = job.run(1, environment_of=lambda rank: variables)
        self.assertEqual((report["rank"], report["ranks"]), (0, 1))
        self.assertEqual(job.deliveries(1).sequence(), self.single(data, "global"))

    def check_launcher(self, name, launch, rank_variable, source, ranks_list):
        """`launch(ranks)` is the launcher's words in front of a command."""
        data = self.data[0]
        for ranks in ranks_list:
            with self.subTest(name, ranks=ranks):
                job = self.job(data, "window", f"{name}-{ranks}")
                # Every process gets the same words; its files carry its rank.
                words = job.command("RANK_OF_THIS")
                script = " ".join(f"'{word}'" for word in words).replace(
                    "RANK_OF_THIS", f"'\"${rank_variable}\"'")
                script += f" > '{job.folder}/'\"${rank_variable}\".json"
                result = subprocess.run(
                    [*launch(ranks), "sh", "-c", f"exec {script}"], capture_output=True, text=True,
                    timeout=LONGEST_RUN_S, env=clean_environment(), check=False)
                self.assertEqual(result.returncode, 0, result.stderr[-2000:])
                reports = [json.loads((job.folder / f"{rank}.json").read_text())
                           for rank in range(ranks)]
                self.assertEqual([(each["rank"], each["ranks"], each["ranks_source"])
                                  for each in reports],
                                 [(rank, ranks, source) for rank in range(ranks)])
                self.assertEqual(job.deliveries(ranks).sequence(), self.single(data, "window"))
                self.assert_payloads(job, data, reports)
                self.assert_once(job, ranks, data)
        self.check_parts(launch(3))

    def check_parts(self, launch):
        """Three processes share the files of one command, and each file is one's."""
        data = self.data[2]
        data.forget_indexes()
        result = subprocess.run([*launch, BINARY, "index", *map(str, data.paths), "--part", "launcher"],
                                capture_output=True, text=True, timeout=LONGEST_RUN_S,
                                env=clean_environment(), check=False)
        self.assertEqual(result.returncode, 0, result.stderr[-2000:])
        lines = [line for line in result.stdout.splitlines() if line.startswith("built")]
        self.assertEqual(sorted(line.split()[1].rstrip(":") for line in lines),
                         sorted(map(str, data.paths)))

    def needs(self, program):
        if shutil.which(program) is None:
            self.skipTest(f"{program} is not installed")

    def test_mpirun(self):
        self.needs("mpirun")
        words = ["mpirun", "--oversubscribe", "--bind-to", "none"]
        words += ["--allow-run-as-root"] if os.geteuid() == 0 else []
        self.check_launcher("mpirun", lambda ranks: [*words, "-n", str(ranks)],
                            "OMPI_COMM_WORLD_RANK", "Open MPI", RANKS)

    def test_torchrun(self):
        self.needs("torchrun")
        self.check_launcher("torchrun", lambda ranks: [
            "torchrun", "--standalone", "--no-python", f"--nproc-per-node={ranks}"], "RANK",
            "torchrun", (2, 4))

    def test_srun(self):
        self.needs("srun")
        self.check_launcher("srun", lambda ranks: ["srun", "--overcommit", "-n", str(ranks)],
                            "SLURM_PROCID", "Slurm", (2, 4))

    def test_hydra(self):
        self.needs("mpiexec.hydra")
        self.check_launcher("hydra", lambda ranks: ["mpiexec.hydra", "-n", str(ranks)], "PMI_RANK",
                            "MPICH", (2, 4))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
