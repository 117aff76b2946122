"""Pairing: two devices of one person meet, by a short code that one shows and a person types on the other."""

from hhd_protocol.pairing.cards import Card, Plan, Refusal, Side
from hhd_protocol.pairing.machine import Fault, Machine, Pake
from hhd_protocol.pairing.window import Failures, Window

__all__ = ["Card", "Failures", "Fault", "Machine", "Pake", "Plan", "Refusal", "Side", "Window"]
