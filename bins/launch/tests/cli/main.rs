//! The real program, with a Hub on loopback, machines that are folders, and a stand-in for the Docker CLI.

mod card;
mod cpu;
mod doctor;
mod fetching;
mod program;
