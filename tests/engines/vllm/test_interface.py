# SPDX-License-Identifier: Apache-2.0
"""vLLM's interface against the one that the adapter was written for, and what is said of differences."""

import inspect
import subprocess
import sys

import pytest
import vllm
from vllm.config import KVTransferConfig
from vllm.distributed.kv_transfer.kv_connector.v1 import metrics
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorBase_V1

from orlop.vllm import OrlopConnector, interface


def test_the_engines_interface_is_the_one_this_adapter_was_written_for():
    tested, golden = interface.golden_of(vllm.__version__)
    assert tested == vllm.__version__
    assert list(interface.differences(golden, interface.interface())) == []
    assert interface.interface_differences() == []


@pytest.mark.parametrize(("owner", "name", "value", "said"), [
    (KVConnectorBase_V1, "reset_cache", lambda self, tags: None,
     "KVConnectorBase_V1.reset_cache(self) is now KVConnectorBase_V1.reset_cache(self, tags)"),
    (KVConnectorBase_V1, "restore_kv_caches", lambda self: None,
     "KVConnectorBase_V1.restore_kv_caches(self) is new"),
    (KVConnectorBase_V1, "get_finished", None,
     "KVConnectorBase_V1.get_finished(self, finished_req_ids) is gone"),
    (KVTransferConfig, "is_kv_consumer", None, "KVTransferConfig.is_kv_consumer is gone")])
def test_each_difference_is_one_sentence(monkeypatch, owner, name, value, said):
    if value is None:
        monkeypatch.delattr(owner, name)
    else:
        monkeypatch.setattr(owner, name, value, raising=False)
    assert interface.interface_differences() == [
        f"vLLM {vllm.__version__}, tested with {vllm.__version__}: {said}"]


def test_a_class_that_moved_is_gone_with_all_its_members(monkeypatch):
    monkeypatch.delattr(metrics, "KVConnectorStats")
    told = interface.interface_differences()
    assert len(told) > 4 and all(": KVConnectorStats" in one and one.endswith("is gone") for one in told)


def test_a_release_that_was_not_tested_is_compared_with_the_one_before_it():
    for version, tested in [("0.33.1", "0.32.0"), ("0.32.0+cpu", "0.32.0"), ("0.40.0rc1", "0.32.0"),
                            ("0.31.2", "0.26.0"), ("0.1.0", "0.26.0")]:
        assert interface.golden_of(version)[0] == tested and interface.golden_of(version)[1]
    assert interface.tested_releases() == ["0.26.0", "0.32.0"]


def test_a_vllm_that_cannot_be_imported_is_a_difference(tmp_path):
    (tmp_path / "vllm.py").write_text("raise RuntimeError('no such driver')")
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.path.insert(0, sys.argv[1])\n"
         "from orlop.vllm import interface\nsys.exit(interface.main(['--compare']))", str(tmp_path)],
        stdout=subprocess.PIPE, text=True, timeout=300)
    assert done.returncode == 1
    assert done.stdout == "vLLM cannot be looked at: RuntimeError: no such driver\n"


def test_the_adapters_hooks_take_what_the_engine_passes():
    hooks = [name for name, value in vars(KVConnectorBase_V1).items()
             if inspect.isfunction(getattr(value, "__func__", value)) and name in vars(OrlopConnector)]
    assert len(hooks) > 20
    for name in hooks:
        own, base = getattr(OrlopConnector, name), getattr(KVConnectorBase_V1, name)
        assert list(inspect.signature(own).parameters) == list(inspect.signature(base).parameters), name
