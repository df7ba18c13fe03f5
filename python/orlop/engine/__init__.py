# SPDX-License-Identifier: Apache-2.0
"""What every engine adapter decides the same way, and no engine in it.

An adapter (``orlop.vllm``) knows its engine's hooks; whether something is offered, remembered as
failed, counted or refused is decided here. Pure Python without an import of any engine, so that all
of it is tested without one.
"""
